"""The window that a log is sure to cover, and times that cannot be right."""

from __future__ import annotations

import pytest

from freetrain.errors import InputError
from tests.replay.logs.build import DAY, Write, hour, read, row, sacct

ROWS = [row("1", submit="00", start="01", end="04"), row("2", submit="02", start="03", end="09")]
ROWS += [
    row("3", submit="07", start="08", end="12"),
    row("4", submit="08", start="Unknown", end="Unknown", state="PENDING"),
]


def test_the_log_s_own_window_is_from_the_first_end_to_the_last_submission(write: Write) -> None:
    log = read(write(sacct(*ROWS)), from_s=None, until_s=None)
    assert (log.holes.from_s, log.holes.until_s) == (hour(4), hour(8))
    assert "2024-06-03T04:00:00Z to 2024-06-03T08:00:00Z" in log.notes[0]


def test_without_submissions_the_last_start_serves(write: Write) -> None:
    header = "JobID|JobName|Partition|State|Comment|Start|End|NNodes|NCPUS|NodeList"
    log = read(write(sacct(*ROWS, header=header)), from_s=None, until_s=None)
    assert (log.holes.from_s, log.holes.until_s) == (hour(4), hour(8))


def test_a_log_that_proves_nothing_is_taken_whole_with_a_warning(write: Write) -> None:
    log = read(
        write(sacct(row("1", start="01", end="09"), row("2", start="02", end="12"))), from_s=None, until_s=None
    )
    assert (log.holes.from_s, log.holes.until_s) == (hour(1), hour(12))
    assert "may only look idle" in log.notes[0]


def test_jobs_outside_the_window_are_ignored_and_those_over_its_edge_cut(write: Write) -> None:
    log = read(write(sacct(*ROWS)), from_s=hour(8.5), until_s=hour(13))
    assert log.rows.ignored == {"never started": 1, "outside the window": 1}
    assert log.jobs == 2
    assert any("2 jobs are over the window's edges" in note for note in log.notes)
    assert any("reaches beyond" in note for note in log.notes)


@pytest.mark.parametrize(
    ("begin", "end", "problem"), [(20, 22, "outside the log"), (-5, -1, "outside"), (9, None, "empty")]
)
def test_a_window_that_shows_nothing_is_refused(
    write: Write, begin: float, end: float | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        read(write(sacct(*ROWS)), from_s=hour(begin), until_s=None if end is None else hour(end))


def test_job_logs_always_say_that_they_show_no_down_nodes(write: Write) -> None:
    assert any("down or drained" in note for note in read(write(sacct(*ROWS))).notes)
    assert DAY in ROWS[0]


def counted(*jobs: tuple[str, str, int]) -> str:
    """A log that names no nodes: starts, ends and numbers of nodes."""
    rows = (
        f"{number}|COMPLETED|{DAY}00:00:00|{DAY}{start}:00:00|{DAY}{end}:00:00|{nodes}"
        for number, (start, end, nodes) in enumerate(jobs, 1)
    )
    return "\n".join(("JobID|State|Submit|Start|End|NNodes", *rows)) + "\n"


def test_a_machine_that_is_too_small_for_its_log_is_a_warning_with_what_mends_it(write: Write) -> None:
    log = read(write(counted(*[("01", "05", 4)] * 6)), nodes=6)
    (warning,) = (warning for warning in log.warnings if "found no room" in warning)
    assert "up to 24 in use at once" in warning
    assert "--nodes 24" in warning
    assert not any("no room" in warning for warning in read(write(counted(("01", "05", 4))), nodes=4).warnings)


def test_a_log_that_never_fills_its_machine_is_a_warning(write: Write) -> None:
    log = read(write(counted(("01", "05", 4), ("06", "09", 20))), nodes=100)
    (warning,) = (warning for warning in log.warnings if "never has more" in warning)
    assert "20 of the machine's 100 nodes" in warning
    assert not any("never has" in warning for warning in read(write(counted(("01", "05", 4))), nodes=5).warnings)


def test_bad_rows_are_judged_within_the_window(write: Write) -> None:
    """Of many rows of other days and few of this one: what is bad among the few counts."""
    other_day = [row(str(number), start="01", end="02").replace(DAY, "2024-06-02T") for number in range(10, 400)]
    bad = [row(str(number), start="soon") for number in range(3)]
    good = [row(str(number), start="01", end="02") for number in range(5, 10)]
    log = read(write(sacct(*other_day, *bad, *good)))
    assert any("3 rows could not be used, 38 % of those that count" in warning for warning in log.warnings)


OWN_WINDOW = {"from_s": None, "until_s": None}
HOURLY_ROWS = [row(str(n), submit=f"{n:02d}", start=f"{n:02d}", end=f"{n + 1:02d}") for n in range(10)]


def window(write: Write, *odd: str) -> tuple[float, float, str]:
    log = read(write(sacct(*HOURLY_ROWS, *odd)), **OWN_WINDOW)
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
    log = read(write(sacct(*HOURLY_ROWS, late)), **OWN_WINDOW)
    # The other two ended as the window began, or began as it ended.
    assert log.rows.ignored["outside the window"] == 3


def test_who_waited_long_before_is_no_outlier(write: Write) -> None:
    begin, end, notes = window(write, row("5", submit="2023-01-01T00:00:00", start="03", end="04"))
    assert (begin, end) == (1, 9)
    assert "Far from" not in notes


def test_a_pause_of_the_whole_site_is_no_outlier(write: Write) -> None:
    later = [line.replace("2024-06-03", "2024-06-24") for line in HOURLY_ROWS]
    begin, end, notes = window(write, *later)
    assert (begin, end) == (1, 21 * 24 + 9)
    assert "Far from" not in notes


def test_a_begin_time_is_no_submission(write: Write) -> None:
    header = "JobID|JobName|Partition|State|Eligible|Start|End|NNodes|NCPUS|NodeList"
    waiting = row("77", submit="2024-06-05T00:00:00", start="Unknown", end="Unknown", state="PENDING")
    log = read(write(sacct(*HOURLY_ROWS, waiting, header=header)), **OWN_WINDOW)
    assert log.holes.until_s == hour(9)


def test_outliers_among_node_events_are_left_out_too(write: Write) -> None:
    events = "".join(f"{hour(n):.0f},a,{n % 2}\n" for n in range(10)) + f"{hour(99999):.0f},b,1\n"
    log = read(write("t,node,idle\n" + events), **OWN_WINDOW)
    assert log.holes.until_s == hour(9)
    assert any("node b changed" in note for note in log.notes)
