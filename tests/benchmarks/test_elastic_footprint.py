"""What a worker says of its memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.elastic.scripts.footprint import FOOTPRINT_VARIABLE, LOOK_AT_STEP, Footprint
from benchmarks.elastic.scripts.stamps import FOLDER_VARIABLE


def lines_after(steps: int, worlds: int) -> int:
    footprint = Footprint()
    for _ in range(worlds):
        footprint.enter_world()
        for _ in range(steps):
            footprint.note_step()
    path = footprint._log
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_it_is_noted_once_in_each_world_that_has_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(FOOTPRINT_VARIABLE, "1")
    assert lines_after(LOOK_AT_STEP - 1, 2) == 0
    assert lines_after(2 * LOOK_AT_STEP, 2) == 2
    facts = json.loads((tmp_path / "footprints").read_text().splitlines()[0])
    assert facts["resident_bytes"] >= facts["needed_bytes"] > 1 << 20
    assert facts["threads"] >= 1


def test_it_is_left_alone_where_nobody_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.delenv(FOOTPRINT_VARIABLE, raising=False)
    assert lines_after(2 * LOOK_AT_STEP, 2) == 0
