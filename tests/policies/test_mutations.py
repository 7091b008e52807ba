"""No damage to a decision problem crashes what reads and solves it, or makes that take long or much memory."""

from __future__ import annotations

from pathlib import Path

from tests.fuzzing.running import MOST_BYTES, MOST_S, run_apart


def test_no_damaged_problem_crashes_the_solver_or_costs_much(tmp_path: Path) -> None:
    record = run_apart("problems", 200, tmp_path)
    assert record.crashes == []
    assert 0 < record.refused < record.trials
    assert record.slowest_s < MOST_S, record.slowest_seed
    assert record.peak_bytes < MOST_BYTES
