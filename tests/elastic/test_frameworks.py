"""Frameworks that people have, where they are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elastic.harness import Agents, workers


def test_accelerates_loop_with_its_prepared_objects_grows_and_survives_a_loss(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    with workers(tmp_path, "accelerated.py") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        trainer.start(1)
        trainer.await_world(3)
        trainer.kill("w1")
        trainer.await_world(2)
        (trainer.out / "done").touch()
        assert set(trainer.finish("w0", "w2").values()) == {0}, trainer.errors()
        rates: dict[int, list[float]] = {}
        for record in trainer.records():
            assert rates.setdefault(record["step"], record["rate"]) == record["rate"]


def steps_and_sizes(trainer: Agents) -> list[tuple[int, int]]:
    path = trainer.out / "steps"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(step), int(size)) for step, _, size in (line.partition(" ") for line in lines)]


def test_lightning_is_started_anew_from_where_it_saved_when_a_node_came(tmp_path: Path) -> None:
    pytest.importorskip("pytorch_lightning")
    trainer = Agents(tmp_path, "lightning_style.py")
    try:
        first = trainer.start_agent("--restart", "--nproc", "1", "--save-timeout", "60")
        trainer.wait_until(lambda: len(steps_and_sizes(trainer)) > 5, "steps of one rank")
        second = trainer.start_agent("--restart", "--nproc", "1", "--save-timeout", "60")
        trainer.wait_until(lambda: any(size == 2 for _, size in steps_and_sizes(trainer)), "steps of two ranks")
        found = steps_and_sizes(trainer)
        before = max(step for step, size in found if size == 1)
        assert min(step for step, size in found if size == 2) == before + 1
        (trainer.out / "enough").touch()
        assert trainer.finish(first, second) == {first: 0, second: 0}, trainer.errors()
    finally:
        trainer.end()
