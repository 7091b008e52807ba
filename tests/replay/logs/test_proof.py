"""The window of a log leaves out times that cannot be right, and names them."""

from __future__ import annotations

import pytest

from tests.replay.logs.build import Write, hour, read, row, sacct

OWN_WINDOW = {"from_s": None, "until_s": None}
ROWS = [row(str(n), submit=f"{n:02d}", start=f"{n:02d}", end=f"{n + 1:02d}") for n in range(10)]


def window(write: Write, *odd: str) -> tuple[float, float, str]:
    log = read(write(sacct(*ROWS, *odd)), **OWN_WINDOW)
    return (log.holes.from_s - hour(0)) / 3600, (log.holes.until_s - hour(0)) / 3600, " ".join(log.notes)


@pytest.mark.parametrize("submit", ["2024-12-24T00:00:00", "2034-01-01T00:00:00"])
def test_one_job_far_in_the_future_does_not_stretch_the_window(write: Write, submit: str) -> None:
    waiting = row("77", submit=submit, start="Unknown", end="Unknown", state="PENDING", list="None assigned")
    begin, end, notes = window(write, waiting)
    assert (begin, end) == (1, 9)
    assert f"job 77 was submitted {submit}Z" in notes


def test_one_job_that_ended_years_ago_does_not_either(write: Write) -> None:
    begin, end, notes = window(write, row("5", submit="2004-01-01T00:00:00", start="2004-01-01", end="2004-01-02"))
    assert (begin, end) == (1, 9)
    assert "job 5 ended 2004-01-02T00:00:00Z" in notes


def test_times_far_before_and_far_after_do_not_hide_each_other(write: Write) -> None:
    odd = {"start": "Unknown", "end": "Unknown", "state": "PENDING", "list": "None assigned"}
    early = row("5", submit="1999-01-01T00:00:00", start="1999-01-01T00:00:00", end="1999-01-02T00:00:00")
    begin, end, notes = window(write, early, row("77", submit="2034-01-01T00:00:00", **odd))
    assert (begin, end) == (1, 9)
    assert "job 5 ended" in notes
    assert "job 77 was submitted" in notes


def test_a_job_that_begins_long_after_the_others_is_outside_the_window(write: Write) -> None:
    late = row("77", submit="2024-12-24T00:00:00", start="2024-12-24T01:00:00", end="2024-12-24T02:00:00")
    log = read(write(sacct(*ROWS, late)), **OWN_WINDOW)
    # The other two ended as the window began, or began as it ended.
    assert log.rows.ignored["outside the window"] == 3


def test_who_waited_long_before_is_no_outlier(write: Write) -> None:
    begin, end, notes = window(write, row("5", submit="2023-01-01T00:00:00", start="03", end="04"))
    assert (begin, end) == (1, 9)
    assert "Far from" not in notes


def test_a_pause_of_the_whole_site_is_no_outlier(write: Write) -> None:
    later = [line.replace("2024-06-03", "2024-06-24") for line in ROWS]
    begin, end, notes = window(write, *later)
    assert (begin, end) == (1, 21 * 24 + 9)
    assert "Far from" not in notes


def test_a_begin_time_is_no_submission(write: Write) -> None:
    header = "JobID|JobName|Partition|State|Eligible|Start|End|NNodes|NCPUS|NodeList"
    waiting = row("77", submit="2024-06-05T00:00:00", start="Unknown", end="Unknown", state="PENDING")
    log = read(write(sacct(*ROWS, waiting, header=header)), **OWN_WINDOW)
    assert log.holes.until_s == hour(9)


def test_outliers_among_node_events_are_left_out_too(write: Write) -> None:
    events = "".join(f"{hour(n):.0f},a,{n % 2}\n" for n in range(10)) + f"{hour(99999):.0f},b,1\n"
    log = read(write("t,node,idle\n" + events), **OWN_WINDOW)
    assert log.holes.until_s == hour(9)
    assert any("node b changed" in note for note in log.notes)
