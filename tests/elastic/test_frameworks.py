"""Frameworks that people have, where they are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elastic.harness import workers


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
