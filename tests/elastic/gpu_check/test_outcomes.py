from __future__ import annotations

from freetrain.elastic.gpu_check.outcomes import Outcome, Verdict, status_of, summary, table

WELL = Outcome("health", Verdict.WELL, "a product is right", 1.25)
FAILED = Outcome("abort", Verdict.FAILED, "aborting took 11 s", 11.0)
HANGS = Outcome("compile", Verdict.TIMED_OUT, "after 120 s", 120.0)
CANNOT = Outcome("join, leave, kill", Verdict.NOT_POSSIBLE, "needs two devices", 0.5)


def test_the_status_is_0_where_all_that_is_possible_goes_well() -> None:
    assert status_of([WELL, CANNOT]) == 0


def test_it_is_1_where_something_fails_or_hangs() -> None:
    assert status_of([WELL, FAILED]) == status_of([WELL, HANGS]) == 1


def test_it_is_2_where_nothing_is_possible() -> None:
    assert status_of([CANNOT]) == status_of([]) == 2


def test_each_check_is_a_line_of_the_table() -> None:
    assert table([WELL, CANNOT]).splitlines() == [
        "check                              s",
        "health             well          1.2  a product is right",
        "join, leave, kill  not possible  0.5  needs two devices",
    ]


def test_the_summary_counts_them() -> None:
    assert summary([WELL, WELL, FAILED, CANNOT]) == "2 well, 1 FAILED, 1 not possible"
