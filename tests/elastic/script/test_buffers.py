"""Running means of a model in training mode are rank 0's, whoever that is, while the world grows and shrinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elastic.harness import Workers, workers

MOMENTUM = 0.1


def by_step(trainer: Workers) -> dict[int, dict[str, dict]]:
    """What each member was at each step."""
    found: dict[int, dict[str, dict]] = {}
    for name in trainer.processes:
        for record in trainer.records(name):
            found.setdefault(record["step"], {})[name] = record
    return found


@pytest.mark.parametrize("kind", ["Run", "Loop"])
def test_running_means_are_those_of_rank_0_on_all_ranks(tmp_path: Path, kind: str) -> None:
    with workers(tmp_path, "running_means.py", KIND=kind) as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        trainer.start(1)
        trainer.await_world(3)
        trainer.leave("w0")
        trainer.await_world(2)
        (trainer.out / "end").touch()
        assert trainer.finish() == {"w0": 0, "w1": 0, "w2": 0}, trainer.errors()
        steps = by_step(trainer)
    assert {len(records) for records in steps.values()} == {2, 3}
    first_of = {
        number: next(name for name, record in records.items() if record["rank"] == 0)
        for number, records in steps.items()
    }
    for number, records in steps.items():
        first = first_of[number]
        for record in records.values():
            assert record["before"] == records[first]["before"]
            assert record["weight"] == records[first]["weight"]
            assert record["tracked"] == number - 1
        if number > 1:
            last = steps[number - 1][first_of[number - 1]]
            added = [(1 - MOMENTUM) * a + MOMENTUM * b for a, b in zip(last["before"], last["seen"], strict=True)]
            assert records[first]["before"] == pytest.approx(added, abs=1e-6)
