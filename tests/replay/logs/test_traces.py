"""Logs whose columns have names of their own: public traces by name, Parquet, and a format file of the user's."""

from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pytest

from freetrain.errors import InputError
from freetrain.replay.logs import ReadOptions, read_site_log
from freetrain.replay.logs.sacct_text import role_of
from freetrain.replay.logs.traces import find_trace, trace_names
from tests.replay.logs.build import Write, holes_of, read

HOUR_NS = 3600 * 10**9


def at(hour: int) -> datetime.datetime:
    """An hour of 2024-06-03, in UTC."""
    return datetime.datetime(2024, 6, 3, hour, tzinfo=datetime.UTC)


@pytest.fixture
def kestrel(tmp_path: Path) -> Path:
    frame = pl.DataFrame({
        "id": [1, 2], "job_id": ["101", "102"], "account_hash": ["a", "b"], "partition": ["short", "gpu-h100"],
        "state_simple": ["COMPLETED", "TIMEOUT"], "submit_time": [at(0), at(0)], "start_time": [at(1), at(3)],
        "end_time": [at(2), at(5)], "wallclock_req": [HOUR_NS, 2 * HOUR_NS], "nodes_req": [2, 1],
        "processors_req": [208, 104], "gpus_requested": [0, 4], "nodelist": [["x1n0", "x1n1"], ["x1n0"]],
    })  # fmt: skip
    path = tmp_path / "month.parquet"
    frame.write_parquet(path)
    return path


def test_months_of_kestrel_are_read_as_the_parquet_files_that_they_are(kestrel: Path) -> None:
    trace = find_trace("kestrel")
    log = read(kestrel, trace=trace, timezone=trace.timezone)
    assert holes_of(log, "x1n0") == [(0, 1), (2, 3), (5, 24)]
    assert holes_of(log, "x1n1") == [(0, 1), (2, 24)]
    assert log.logged is not None
    assert log.logged.limit_s.tolist() == [3600, 7200]
    assert log.logged.partition_names == ("gpu-h100", "short")


def test_a_damaged_parquet_file_is_refused(kestrel: Path) -> None:
    data = bytearray(kestrel.read_bytes())
    data[-40:-20] = b"\xff" * 20
    kestrel.write_bytes(data)
    with pytest.raises(InputError, match="Parquet"):
        read(kestrel, trace=find_trace("kestrel"))


def test_every_column_that_a_trace_names_is_one_that_is_read_or_kept(write: Write) -> None:
    for name in trace_names():
        trace = find_trace(name)
        changed = {*trace.texts, *trace.words, *trace.units}
        assert changed <= trace.columns.keys()
        assert all(role_of(column) for column in changed | {"JobID", "Start", "End"})


def test_a_format_file_names_the_columns_of_any_table(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        '[columns]\nJobID = "nr"\nState = "how"\nStart = "from"\nEnd = ["to", "till"]\nNodeList = "where"\n'
        '[words.State]\nok = "COMPLETED"\n'
    )
    text = 'nr,how,from,till,where\n7,ok,2024-06-03 01:00:00,2024-06-03 02:00:00,"c1,c2"\n8,ok,x,y,c1\n'
    log = read(write(text), trace=find_trace(str(path)))
    assert holes_of(log, "c2") == [(0, 1), (2, 24)]
    assert [(row.line, row.reason) for row in log.rows.first_rejects] == [(3, "Start 'x' is not a time")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('[columns]\nJobID = 3\n', "is wrong: columns.JobID"),
        ("nonsense = 1\n", "is wrong: nonsense"),
        ("[columns\n", "is not TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_format_file_is_said(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        find_trace(str(path))
    assert sentence in caught.value.what


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="no format 'borg'") as caught:
        find_trace("borg")
    assert "philly" in caught.value.hint


def test_the_wrong_format_names_the_column_that_the_file_lacks(write: Write) -> None:
    with pytest.raises(InputError, match="has no column id_job and time_start"):
        read_site_log([write("JobID,Start\n1,2\n")], ReadOptions(trace=find_trace("supercloud")))
