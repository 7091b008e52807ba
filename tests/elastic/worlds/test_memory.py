"""What a world used is free again when it has been left."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from freetrain.elastic.worlds import memory
from tests.elastic.harness import workers


def test_nothing_of_a_world_stays_when_it_has_been_left(tmp_path: Path) -> None:
    with workers(tmp_path, "leftovers.py") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        trainer.start(2)
        trainer.await_world(4)
        trainer.leave("w3")
        trainer.await_world(3)
        trainer.kill("w2")
        trainer.await_world(2)
        trainer.kill("w1")
        trainer.await_world(1)
        (trainer.out / "done").touch()
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
        left = [{kind: record[kind] for kind in ("worlds", "collectives")} for record in trainer.records()]
        assert all(counts == {"worlds": 1, "collectives": 1} for counts in left), left[-1]


class Libc:
    def __init__(self) -> None:
        self.trimmed = threading.Event()
        self.chosen: dict[int, int] = {}

    def mallopt(self, parameter: int, value: int) -> int:
        self.chosen[parameter] = value
        return 1

    def malloc_trim(self, pad: int) -> None:
        assert pad == 0
        self.trimmed.set()


@pytest.fixture(autouse=True)
def _forget_the_library():
    memory._of_libc.cache_clear()
    yield
    memory._of_libc.cache_clear()


def test_an_allocator_that_can_gives_free_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Libc()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc)
    memory.give_back_memory()
    assert libc.trimmed.wait(120)


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    monkeypatch.delattr(threading, "Thread")
    memory.keep_memory()
    memory.give_back_memory()


@pytest.mark.parametrize("name", ["GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_"])
def test_what_the_user_has_chosen_for_the_allocator_holds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    libc = Libc()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc)
    monkeypatch.setenv(name, "1")
    memory.keep_memory()
    assert not libc.chosen
    monkeypatch.delenv(name)
    memory.keep_memory()
    assert libc.chosen


UPDATES = """
import resource, torch
from freetrain.elastic.worlds.memory import keep_memory
keep_memory()
parameters = [torch.ones(1024, 1024, requires_grad=True) for _ in range(8)]
optimizer = torch.optim.Adam(parameters)
faults = []
for _ in range(16):
    for each in parameters:
        each.grad = torch.ones_like(each)
    optimizer.step()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(min(after - before for before, after in zip(faults, faults[1:])))
"""
"""Until glibc's blocks lie so that all fit into what was freed, it gets a few anew in some updates."""


def fewest_new_pages(**chosen: str) -> int:
    """Of an update, with these of glibc's settings in the environment."""
    others = {name: value for name, value in os.environ.items() if name not in memory.CHOSEN_BY}
    program = [sys.executable, "-c", UPDATES]
    return int(subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True, env=others | chosen).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_updates_go_on_in_the_memory_that_earlier_ones_freed_unless_the_user_has_chosen_otherwise() -> None:
    """Left to itself glibc does either, by what happens to lie where."""
    temporary_pages = 8 * 4 * 1024 * 1024 // mmap.PAGESIZE
    assert fewest_new_pages() < temporary_pages / 10
    assert fewest_new_pages(MALLOC_MMAP_THRESHOLD_="65536") > temporary_pages / 2


def test_pages_of_a_tensor_are_given_back_and_none_of_its_neighbours() -> None:
    whole = torch.ones(1 << 20)
    memory.give_back_pages(whole[1000:500_000])
    assert whole[:1000].min() == 1 == whole[500_000:].min()
    page_floats = mmap.PAGESIZE // 4
    assert whole[1000 + page_floats : 500_000 - page_floats].max() == 0


def test_a_tensor_that_has_no_pages_of_its_own_stays() -> None:
    small, strided = torch.ones(10), torch.ones(1000, 1000).T
    memory.give_back_pages(small)
    memory.give_back_pages(strided)
    assert small.min() == 1 == strided.min()
