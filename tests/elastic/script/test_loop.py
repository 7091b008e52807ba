"""Scripts that keep their loops train as they would alone in one process, whoever comes and goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from freetrain.elastic.data.batching import Sampler
from tests.elastic.harness import Workers, workers
from tests.elastic.scripts.looping import BATCH, EPOCHS, LOOPS, SAMPLES, Charmed, Images, together


def trained_alone(name: str, variant: str = "") -> Any:
    """The same loop in one process, without any of the runtime but the order of the samples."""
    loop: Any = LOOPS[name](variant)
    images = Images()
    sampler = Sampler(SAMPLES, EPOCHS, shuffle=variant != "stream")
    for _ in range(EPOCHS):
        batches = []
        while ids := sampler.peek(BATCH):
            batches.append(together([images[id_] for id_ in ids]))
            sampler.advance(len(ids))
        sampler.end_epoch()
        loop.epoch(enumerate(batches), lambda: 0, Charmed(), lambda value: value)
    return loop


def facts(trainer: Workers, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((trainer.out / f"facts-{name}.json").read_text())
    return document


def assert_same_state(trainer: Workers, name: str, expected: Any, atol: float) -> None:
    """Of the models, and of what is carried along beside them."""
    also = {key: item.state_dict() for key, item in expected.also.items()}
    assert facts(trainer, name)["also"] == json.loads(json.dumps(also))
    found = torch.load(trainer.out / f"model-{name}.pt")
    for mine, theirs in zip(found, (model.state_dict() for model in expected.models), strict=True):
        assert mine.keys() == theirs.keys()
        for key, value in theirs.items():
            assert torch.allclose(mine[key], value, atol=atol, rtol=1e-3), f"{key} of {name}"


# Batches 4 and 5 are of one step, in which the second worker dies: they are made again.
NUMBERS_OF_THE_FIRST = [0, 1, 2, 3, 4, 5, *range(4, 8), *range(8), *range(8)]
NUMBERS_OF_THE_OTHER = [4, 5, 6, 7, *range(8)]


def one_dies_and_another_joins(
    folder: Path, variant: str = "", atol: float = 1e-5, servers: int = 0
) -> tuple[list[int], list[int]]:
    """In the middle of a step that accumulates two batches, and in the middle of the second epoch.

    Returns the numbers of the batches of the worker that stays, and of the worker that joins.
    """
    environment = {"LOOP": "classifier", "VARIANT": variant, "DIES": "w1:batch:2", "AWAITED": "5:w2"}
    with workers(folder, "looping.py", **environment) as trainer:
        served_by = trainer.serve(servers)
        trainer.wait_until(lambda: len(trainer.directory.view().servers) == servers, "servers")
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        assert trainer.finish("w1") == {"w1": -9}, trainer.errors()
        trainer.wait_until((trainer.out / "awaits").exists, "step before which another one is to join")
        assert set(trainer.servers()) == set(served_by)
        trainer.start(1)
        assert set(trainer.finish("w0", "w2", *served_by).values()) == {0}, trainer.errors()
        alone = trained_alone("classifier", variant)
        assert alone.scaler.get_scale() == 1024.0 / 2**EPOCHS, "no update was left out"
        assert_same_state(trainer, "w0", alone, atol)
        assert_same_state(trainer, "w2", alone, atol)
        first, second = facts(trainer, "w0"), facts(trainer, "w2")
    assert first["epochs"] == [0, 1, 2]
    assert second["epochs"] == [1, 2]
    for mine, theirs in zip(first["steps"][-12:], second["steps"], strict=True):
        assert not set(mine[1]) & set(theirs[1])
    last_epoch = [id_ for loop in (first, second) for _, ids in loop["steps"][-8:] for id_ in ids]
    assert sorted(last_epoch) == list(range(SAMPLES))
    return [number for number, _ in first["steps"]], [number for number, _ in second["steps"]]


def test_accumulation_clipping_infinite_gradients_a_schedule_and_a_data_loader_with_workers(
    tmp_path: Path,
) -> None:
    assert one_dies_and_another_joins(tmp_path) == (NUMBERS_OF_THE_FIRST, NUMBERS_OF_THE_OTHER)


def test_the_same_where_two_servers_add_the_gradients_up(tmp_path: Path) -> None:
    numbers = one_dies_and_another_joins(tmp_path, servers=2)
    assert numbers == (NUMBERS_OF_THE_FIRST, NUMBERS_OF_THE_OTHER)


@pytest.mark.soak
@pytest.mark.parametrize(("variant", "atol"), [("bfloat16", 2e-2), ("compiled", 1e-5), ("stream", 1e-5)])
def test_autocast_compiled_models_and_data_that_can_only_be_read_in_order(
    tmp_path: Path, variant: str, atol: float
) -> None:
    numbers = one_dies_and_another_joins(tmp_path, variant, atol)
    assert numbers == (NUMBERS_OF_THE_FIRST, NUMBERS_OF_THE_OTHER)


def test_two_models_a_loss_between_their_updates_and_one_while_a_mean_is_taken(tmp_path: Path) -> None:
    dies = "w1:between:2,w2:epoch:16"
    with workers(tmp_path, "looping.py", LOOP="rivals", DIES=dies, AWAITED="5:w2") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        assert trainer.finish("w1") == {"w1": -9}, trainer.errors()
        trainer.wait_until((trainer.out / "awaits").exists, "step before which another one is to join")
        trainer.start(1, KNOCKS="w3")
        trainer.wait_until((trainer.out / "dying-w2").exists, "end of the second epoch")
        trainer.start(1)
        assert trainer.finish() == {"w0": 0, "w1": -9, "w2": -9, "w3": 0}, trainer.errors()
        alone = trained_alone("rivals")
        assert_same_state(trainer, "w0", alone, 1e-5)
        assert_same_state(trainer, "w3", alone, 1e-5)
        assert facts(trainer, "w0")["means"] == [90.0, 170.0, 250.0]
        assert facts(trainer, "w3")["means"] == [250.0]
