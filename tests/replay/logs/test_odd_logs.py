"""A folder of small logs in the dialects and with the oddities of real ones, each with what it holds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from freetrain.errors import InputError
from freetrain.replay.logs import ReadOptions, read_site_log
from freetrain.replay.logs.traces import find_trace

FOLDER = Path(__file__).parent / "odd"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))
DAY_S = {"from_s": 1_740_960_000.0, "until_s": 1_741_046_400.0}
"""2025-03-03."""


def options_of(entry: dict[str, Any]) -> ReadOptions:
    """How a log is to be read."""
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.get("options", {}).items()}
    if name := given.get("trace"):
        trace = find_trace(name)
        given |= {"trace": trace, "timezone": trace.timezone}
    return ReadOptions(**({} if entry.get("own_window") else DAY_S) | given)


@pytest.mark.parametrize("name", EXPECTED)
def test_each_log_holds_what_is_written_of_it(name: str) -> None:
    entry = EXPECTED[name]
    if "error" in entry:
        with pytest.raises(InputError) as caught:
            read_site_log([FOLDER / name], options_of(entry))
        assert entry["error"] in caught.value.what
        return
    log = read_site_log([FOLDER / name], options_of(entry))
    rows = log.rows
    assert [rows.read, rows.used, sum(rows.ignored.values()), rows.rejected] == entry["rows"]
    assert len(log.holes.node_names) == entry["nodes"]
    assert log.holes.idle_node_hours == pytest.approx(entry["idle_node_hours"])


def test_all_logs_of_the_folder_are_in_the_list() -> None:
    assert {path.name for path in FOLDER.iterdir()} == EXPECTED.keys() | {"expected.toml"}
