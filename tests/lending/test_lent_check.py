from __future__ import annotations

from dataclasses import replace

from freetrain.core.job import JobRun, JobState
from freetrain.lending.lent_time import Lending, compare

ONE = Lending("7_0", "7", "n1", 100.0, 200.0)
AGAIN = Lending("7_0", "7", "n2", 300.0, 500.0)
RUNS = [
    JobRun("7_0", JobState.PREEMPTED, 100.0, 201.0),
    JobRun("7_0", JobState.COMPLETED, 300.0, 500.0),
    JobRun("7_1", JobState.PENDING, None, None),
]


def said(lendings: list[Lending], runs: list[JobRun], from_s: float = 0.0) -> list[tuple[str, float, str]]:
    found = compare(lendings, runs, from_s, 1000.0, 1000.0)
    return [(difference.job, difference.start_s, difference.what) for difference in found.differences]


def test_what_both_tell_in_the_same_way_within_a_second_or_two_is_no_difference() -> None:
    found = compare([ONE, AGAIN], RUNS, 0.0, 1000.0, 1000.0)
    assert (found.differences, found.compared) == ((), 2)
    assert (found.ledger_s, found.accounting_s) == (300, 301)


def test_each_difference_is_named() -> None:
    longer = replace(AGAIN, end_s=560.0)
    assert said([ONE, longer], RUNS) == [("7_0", 300.0, "60 s more in the ledger")]
    assert said([AGAIN], RUNS) == [("7_0", 100.0, "only accounting knows of it")]
    assert said([ONE, AGAIN], RUNS[:1]) == [("7_0", 300.0, "only the ledger knows of it")]
    unended = JobRun("7_0", JobState.RUNNING, 300.0, None)
    assert said([ONE, AGAIN], [RUNS[0], unended]) == [("7_0", 300.0, "500 s less in the ledger")]


def test_a_run_on_several_nodes_counts_on_each_that_was_lent() -> None:
    both = [ONE, replace(ONE, node="n2")]
    found = compare(both, RUNS[:1], 0.0, 1000.0, 1000.0)
    assert (found.differences, found.ledger_s, found.accounting_s) == ((), 200, 202)


def test_only_what_lies_in_the_range_is_compared() -> None:
    assert said([AGAIN], RUNS, from_s=250.0) == []
    assert said([replace(ONE, start_s=90.0), AGAIN], RUNS, from_s=250.0) == []


def test_a_run_that_ends_in_the_second_of_its_start_is_known_to_both_whatever_the_ledger_makes_of_it() -> None:
    brief = JobRun("7_0", JobState.CANCELLED, 600.0, 600.0)
    assert said([Lending("7_0", "7", "n1", 600.0, 601.0)], [brief]) == []
    assert said([Lending("7_0", "7", "n1", 600.0, 600.0)], [brief]) == []
    assert said([], [brief]) == []
