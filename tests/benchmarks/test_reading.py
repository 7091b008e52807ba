from __future__ import annotations

from pathlib import Path

from benchmarks.reading import read, write_log


def test_a_made_log_has_as_many_rows_as_were_asked_for_and_all_of_them_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "made.sacct"
    write_log(path, 10_000)
    found = read(path)
    assert found["rows"] == 10_000
    assert found["used"] > 9_000
    assert found["peak_bytes"] > 0
