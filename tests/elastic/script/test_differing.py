"""A newcomer that cannot go the others' way ends alone, with a sentence; they go on, and never step back."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.elastic.harness import Workers, workers

WRONG = {
    "mean by its own count": "values of all ranks at differing.py:",
    "metric that synchronises by itself": "torch.distributed allreduce at differing.py:",
    "gathers by itself": "torch.distributed allgather at differing.py:",
    "halves the rate": "its learning rates in step",
    "trains layers in turn": "sums other parameters, than the others",
}
RIGHT = ("halves the rate once", "unfreezes", "adds a group", "grows a buffer")


MORE = (
    "changes a rate by hand",
    "changes values by hand",
    "leaves a step out",
    "breaks out early",
    "has another batch",
    "has another model",
    "fails",
)


def steps_of(trainer: Workers, name: str) -> list[int]:
    return [record["step"] for record in trainer.records(name)]


def assert_never_stepped_back(trainer: Workers) -> None:
    """A step that was lost may be made again; no earlier one."""
    for name in ("w0", "w1"):
        steps = steps_of(trainer, name)
        assert all(after - before in (0, 1) for before, after in itertools.pairwise(steps)), steps


def start_in_the_middle_of_an_epoch(trainer: Workers, **environment: str) -> None:
    """A third worker, for which the others wait in no other way than slowly."""
    trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
    trainer.wait_until(lambda: trainer.last_step() > 22, "second epoch")
    trainer.pace(slow=True)
    trainer.start(1, SHIFT="1", **environment)


@pytest.mark.parametrize("way", WRONG)
def test_a_newcomer_that_differs_ends_alone(tmp_path: Path, way: str) -> None:
    with workers(tmp_path, "differing.py", WAY=way) as trainer:
        start_in_the_middle_of_an_epoch(trainer)
        assert trainer.finish("w2") == {"w2": 78}, trainer.errors()
        assert "this worker differs from the others: " in trainer.error_of("w2")
        assert WRONG[way] in trainer.error_of("w2")
        assert "Traceback" not in trainer.error_of("w2")
        trainer.pace(slow=False)
        trainer.await_world(2)
        (trainer.out / "done").touch()
        assert trainer.finish("w0", "w1") == {"w0": 0, "w1": 0}, trainer.errors()
        assert_never_stepped_back(trainer)


def test_a_newcomer_with_another_rate_ends_alone_although_it_gets_the_others_state(tmp_path: Path) -> None:
    with workers(tmp_path, "differing.py", WAY="halves the rate once") as trainer:
        start_in_the_middle_of_an_epoch(trainer, WAY="halves the rate", RATE="0.5")
        assert trainer.finish("w2") == {"w2": 78}, trainer.errors()
        (trainer.out / "done").touch()
        assert trainer.finish("w0", "w1") == {"w0": 0, "w1": 0}, trainer.errors()


@pytest.mark.parametrize("way", RIGHT)
def test_what_is_changed_on_the_way_is_carried_to_a_newcomer(tmp_path: Path, way: str) -> None:
    with workers(tmp_path, "differing.py", WAY=way) as trainer:
        start_in_the_middle_of_an_epoch(trainer)
        trainer.await_world(3)
        trainer.pace(slow=False)
        trainer.wait_until(lambda: trainer.last_step() > 82, "another epoch")
        (trainer.out / "done").touch()
        assert set(trainer.finish().values()) == {0}, trainer.errors()
        assert_never_stepped_back(trainer)
        rates = {
            name: {record["step"]: record["rate"] for record in trainer.records(name)} for name in ("w0", "w2")
        }
        assert all(rates["w0"].get(step, rate) == rate for step, rate in rates["w2"].items())


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_old_worker_ends_or_steps_back_where_every_other_newcomer_is_wrong(tmp_path: Path) -> None:
    """Right ones come and go between."""
    seed, changes = int(os.environ.get("SOAK_SEED", "11")), int(os.environ.get("SOAK_CHANGES", "200"))
    ways = random.Random(seed)
    done: Counter[str] = Counter()
    with workers(tmp_path, "differing.py", WAY="plain") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        for _ in range(changes // 2):
            way = ways.choice([*WRONG, *MORE])
            (wrong,) = trainer.start(1, WAY=way, SHIFT="1")
            assert trainer.finish(wrong)[wrong] in (1, 78), f"{way}: {trainer.error_of(wrong)}"
            done[way] += 1
            (right,) = trainer.start(1)
            trainer.await_world(3)
            trainer.leave(right) if ways.random() < 0.5 else trainer.kill(right)
            trainer.await_world(2)
        (trainer.out / "done").touch()
        assert trainer.finish("w0", "w1") == {"w0": 0, "w1": 0}, trainer.errors()
        assert_never_stepped_back(trainer)
    print(f"seed {seed}: {trainer.last_step()} steps; wrong: {dict(done)}")
