"""A training that its script ends early is complete, and who comes when all is done goes in peace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.elastic.harness import Workers, workers


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[Workers]:
    with workers(tmp_path, "stopping.py") as trainer:
        yield trainer


def end(trainer: Workers, name: str) -> None:
    (trainer.out / f"end-{name}").touch()


def checkpoints(trainer: Workers) -> list[str]:
    return [path.name for path in trainer.directory.checkpoints.iterdir()]


def steps_seen_through(trainer: Workers) -> dict[str, int]:
    return {path.name.removeprefix("after-"): int(path.read_text()) for path in trainer.out.glob("after-*")}


def assert_complete(trainer: Workers, *names: str) -> None:
    """All ended at the same step, of which there is a checkpoint."""
    (step,) = set(steps_seen_through(trainer).values())
    assert steps_seen_through(trainer) == dict.fromkeys(names, step)
    assert json.loads(trainer.directory.finished_path.read_text())["step"] == step
    assert f"step-{step:010d}.pt" in checkpoints(trainer)


@pytest.mark.parametrize("who", ["w0", "w1"])
def test_one_rank_that_stops_ends_the_training_for_all(trainer: Workers, who: str) -> None:
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2", HOW="stop")
    trainer.await_world(2)
    end(trainer, who)
    assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
    assert_complete(trainer, "w0", "w1")


def test_a_rank_that_did_not_hear_of_the_stop_hears_of_it_in_the_next_world(trainer: Workers) -> None:
    trainer.start(1, FREETRAIN_MIN_MEMBERS="2", HOW="stop")
    trainer.start(1, FREETRAIN_MIN_MEMBERS="2", DEAF="1")
    trainer.await_world(2)
    end(trainer, "w0")
    assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
    assert_complete(trainer, "w0", "w1")


def test_a_break_is_told_and_costs_one_step_only(trainer: Workers) -> None:
    trainer.start(1, HOW="break")
    trainer.await_world(1)
    end(trainer, "w0")
    assert trainer.finish() == {"w0": 1}
    step = trainer.last_step_of("w0")
    assert f"left the loop over run.steps() in step {step + 1}, which is lost" in trainer.error_of("w0")
    assert "run.stop()" in trainer.error_of("w0")
    assert checkpoints(trainer) == [f"step-{step:010d}.pt"]
    assert not trainer.directory.finished_path.exists()


def test_who_is_to_join_after_the_last_step_has_nothing_to_do(trainer: Workers) -> None:
    trainer.start(1, STEPS="20", LAST_STEP_WAITS_FOR="w1")
    trainer.await_world(1)
    trainer.start(1, STEPS="20")
    assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
    assert_complete(trainer, "w0")


def test_who_joins_those_who_are_just_through_has_nothing_to_do(trainer: Workers) -> None:
    trainer.start(1, STEPS="20", LAST_STEP_WAITS_FOR="w1", DEAF="1")
    trainer.await_world(1)
    trainer.start(1, STEPS="20")
    assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
    # On a busy machine it may have joined, and hears in the next world that all is done.
    assert_complete(trainer, *({"w0", "w1"} & steps_seen_through(trainer).keys()))
    assert steps_seen_through(trainer)["w0"] == 20


def test_who_comes_when_all_is_done_does_not_wait_for_company(trainer: Workers) -> None:
    trainer.start(1, STEPS="3")
    assert trainer.finish() == {"w0": 0}, trainer.errors()
    trainer.start(1, STEPS="3", FREETRAIN_MIN_MEMBERS="2")
    assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
    assert f"the training is complete; remove {trainer.directory.finished_path}" in trainer.error_of("w1")
    assert_complete(trainer, "w0")
