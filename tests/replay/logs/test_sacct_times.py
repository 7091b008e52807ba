"""When jobs ended, where the log says it twice, or only in part."""

from __future__ import annotations

import pytest

from tests.replay.logs.build import HEADER, Write, holes_of, hour, read, row, sacct

WITH_ELAPSED = HEADER.replace("JobName", "ElapsedRaw")
OCTOBER = {"timezone": "Europe/Berlin", "from_s": 1729980000.0, "until_s": 1730066400.0}
"""24 hours from 2024-10-27T00:00 in Berlin, where clocks went back from 03:00 to 02:00."""


def test_time_for_which_a_job_was_suspended_is_not_in_elapsed(write: Write) -> None:
    header = HEADER.replace("End", "Elapsed").replace("JobName", "Suspended")
    log = read(write(sacct(row(name="02:00:00", end="01:00:00"), header=header)))
    assert holes_of(log, "c1") == [(0, 1), (4, 24)]


def test_without_end_and_suspended_the_log_cannot_say_and_the_note_does(write: Write) -> None:
    log = read(write(sacct(row(end="01:00:00"), header=HEADER.replace("End", "Elapsed"))))
    assert any("too early for jobs that were suspended" in note for note in log.notes)


def test_a_suspended_job_is_still_on_its_nodes(write: Write) -> None:
    log = read(write(sacct(row(name="3600", end="Unknown", state="SUSPENDED"), header=WITH_ELAPSED)))
    assert holes_of(log, "c1") == [(0, 1)]


@pytest.mark.parametrize(
    ("start", "end", "elapsed_s", "busy_h"),
    [
        ("02:30", "04:00", 3600 * 1.5, 1.5),  # began in the second 02:30
        ("02:30", "04:00", 3600 * 2.5, 2.5),  # in the first
        ("01:00", "02:30", 3600 * 2.5, 2.5),  # ended in the second
        ("02:10", "02:20", 600, 1 / 6),
        ("02:10", "02:20", 4200, 7 / 6),
    ],
)
def test_elapsed_tells_which_of_two_equal_hours_is_meant(
    write: Write, start: str, end: str, elapsed_s: float, busy_h: float
) -> None:
    start, end = f"2024-10-27T{start}:00", f"2024-10-27T{end}:00"
    rows = row(name=f"{elapsed_s:.0f}", submit=start, start=start, end=end)
    log = read(write(sacct(rows, header=WITH_ELAPSED)), **OCTOBER)
    assert log.holes.idle_node_hours == pytest.approx(24 - busy_h)


def test_an_hour_too_much_or_too_few_is_told_with_what_to_do(write: Write) -> None:
    rows = [row("7", name="3600", start="01", end="03"), row("8", name="3600", start="05", end="06")]
    log = read(write(sacct(*rows, header=WITH_ELAPSED)))
    assert any("for an hour more or less" in note and "--timezone" in note and "7" in note for note in log.notes)


def test_an_elapsed_time_that_does_not_fit_is_told(write: Write) -> None:
    log = read(write(sacct(row("7", name="60", start="01", end="03"), header=WITH_ELAPSED)))
    assert any("does not fit their Start and End (the first: 7)" in note for note in log.notes)
    assert holes_of(log, "c1") == [(0, 1), (3, 24)]


@pytest.mark.parametrize("elapsed", ["9" * 30, "1e300", "soon", "-1"])
def test_without_an_end_an_elapsed_time_that_is_none_is_a_bad_row(write: Write, elapsed: str) -> None:
    header = HEADER.replace("End", "Elapsed")
    log = read(write(sacct(row("1", end="01:00:00"), row("2", end=elapsed), header=header)))
    assert (log.rows.used, log.rows.rejected) == (1, 1)
    assert hour(0) == log.holes.from_s
