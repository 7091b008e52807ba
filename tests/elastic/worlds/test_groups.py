from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
import torch.distributed as dist

from freetrain.elastic.worlds import groups
from freetrain.elastic.worlds.groups import ScriptsGroup, abort_nccl, form_default
from freetrain.errors import InputError
from tests.elastic.harness import workers


def test_torchs_own_collectives_are_made(tmp_path: Path) -> None:
    with workers(tmp_path, "asking.py", FREETRAIN_MIN_MEMBERS="2") as trainer:
        trainer.start(2)
        assert set(trainer.finish().values()) == {0}, trainer.errors()
        found = [json.loads(path.read_text()) for path in sorted(trainer.out.glob("asked-*.json"))]
    assert found == [[3.0, [1.0, 2.0], [1.0, 2.0], 2.0, [0, 1]]] * 2


@pytest.mark.parametrize("name", ["send", "recv"])
def test_an_exchange_with_another_rank_before_there_is_one_ends_with_a_sentence(name: str) -> None:
    group = ScriptsGroup(0, 2)
    with pytest.raises(InputError, match=rf"torch\.distributed\.{name} was called before there were other ranks"):
        getattr(group, name)([torch.zeros(1)], 1, 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, on which it forms")
def test_losses_are_left_to_the_watcher_before_torchs_own_watchdog_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in groups._NCCL_SETTINGS:
        monkeypatch.setenv(name, "3")
    with pytest.raises((RuntimeError, ValueError)):
        form_default("cpu:gloo,cuda:nccl", dist.HashStore(), 0, 1, timedelta(seconds=5))
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == os.environ["TORCH_NCCL_ENABLE_MONITORING"] == "0"


class WithBackend:
    """A process group of which only the GPUs' backend is asked for."""

    def __init__(self, backend: object) -> None:
        self._backend = backend

    def _get_backend(self, device: torch.device) -> object:
        assert device.type == "cuda"
        return self._backend


@pytest.mark.parametrize("method", ["abort", "_shutdown"])
def test_the_gpus_backend_of_each_group_is_aborted_as_its_torch_does(method: str) -> None:
    aborted: list[str] = []
    backend = SimpleNamespace(**{method: lambda: aborted.append(method)})
    abort_nccl([cast(dist.ProcessGroup, WithBackend(backend))] * 2)
    assert aborted == [method]


def test_a_group_without_gpus_keeps_no_other_from_being_aborted() -> None:
    aborted: list[str] = []
    backend = SimpleNamespace(abort=lambda: aborted.append("abort"))
    abort_nccl([None, ScriptsGroup(0, 1), cast(dist.ProcessGroup, WithBackend(backend))])
    assert aborted == ["abort"]
