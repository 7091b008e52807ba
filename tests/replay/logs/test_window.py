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
    (warning,) = (one for one in log.warnings if "found no room" in one)
    assert "up to 24 in use at once" in warning
    assert "--nodes 24" in warning
    assert not any("no room" in one for one in read(write(counted(("01", "05", 4))), nodes=4).warnings)


def test_a_log_that_never_fills_its_machine_is_a_warning(write: Write) -> None:
    log = read(write(counted(("01", "05", 4), ("06", "09", 20))), nodes=100)
    (warning,) = (one for one in log.warnings if "never has more" in one)
    assert "20 of the machine's 100 nodes" in warning
    assert not any("never has" in one for one in read(write(counted(("01", "05", 4))), nodes=5).warnings)


def test_bad_rows_are_judged_within_the_window(write: Write) -> None:
    """Of many rows of other days and few of this one: what is bad among the few counts."""
    other_day = [row(str(number), start="01", end="02").replace(DAY, "2024-06-02T") for number in range(10, 400)]
    bad = [row(str(number), start="soon") for number in range(3)]
    good = [row(str(number), start="01", end="02") for number in range(5, 10)]
    log = read(write(sacct(*other_day, *bad, *good)))
    assert any("3 rows could not be used, 38 % of those that count" in one for one in log.warnings)
