"""The threat model: each line names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/admins/security.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "| what holds |" not in line]


def test_there_are_lines() -> None:
    assert len(ROWS) >= 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_each_line_has_its_test(row: str) -> None:
    (name,) = re.findall(r"`(tests/[^`]+)`", row)
    path, _, test = name.partition("::")
    assert f"def {test}(" in (ROOT / path).read_text()
