"""No damage to a log crashes its reader, or makes it take long or much memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzzing.running import MOST_BYTES, MOST_S, run_apart


@pytest.mark.slow
def test_no_damaged_log_crashes_the_reader_or_costs_much(tmp_path: Path) -> None:
    record = run_apart("logs", 80, tmp_path)
    assert record.crashes == []
    assert 0 < record.refused < record.trials
    assert record.slowest_s < MOST_S, record.slowest_seed
    assert record.peak_bytes < MOST_BYTES
