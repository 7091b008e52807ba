from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition, Reservation
from freetrain.lending.blocked_jobs import Wait, find_waits
from freetrain.lending.facts import Facts
from freetrain.lending.rules import NodeRules
from tests.facts import node

NOW_S = 1_000_000.0
LIMIT_S = 86_400.0
NAMES = frozenset({"n1", "n2", "n3"})
PARTITIONS = {name: Partition(name, NAMES) for name in ("main", "debug", "freetrain")}


def lent(node: str, ends_in_s: float = LIMIT_S) -> Fragment:
    return Fragment(f"7_{node[1:]}", "7", node, FragmentState.RUNNING, NOW_S - 10, ends_in_s, NOW_S)


def waiting(starts_in_s: float, *nodes: str, **more: object) -> Job:
    job = Job("1", "1", "games", "debug", JobState.PENDING, limit_s=600.0)
    planned = replace(job, start_s=NOW_S + starts_in_s, planned_nodes=frozenset(nodes))
    return replace(planned, **more)  # type: ignore[arg-type]


def running(ends_in_s: float | None, *nodes: str) -> Job:
    end_s = None if ends_in_s is None else NOW_S + ends_in_s
    return Job("2", "2", "games", "main", JobState.RUNNING, nodes=frozenset(nodes), end_s=end_s)


def waits(*jobs: Job, fragments: tuple[Fragment, ...] = (lent("n1"), lent("n2")), **more: object) -> list[Wait]:
    snapshot = Snapshot(NOW_S, tuple(node(name, "ALLOCATED") for name in NAMES), jobs, partitions=PARTITIONS)
    seen = replace(snapshot, **more)  # type: ignore[arg-type]
    return find_waits(Facts(seen, fragments), NodeRules(FragmentQueue("freetrain")))


def test_a_job_that_is_planned_for_the_end_of_a_fragment_waits_for_it() -> None:
    (found,) = waits(waiting(LIMIT_S, "n1", "n3"))
    assert found == Wait("1", "debug", frozenset({"n1"}), NOW_S + LIMIT_S)


def test_slurms_own_end_of_a_fragment_counts_where_it_says_one() -> None:
    shown = Job("7_1", "7", "news", "freetrain", JobState.RUNNING, nodes=frozenset({"n1"}), end_s=NOW_S + 500)
    assert waits(waiting(500, "n1"), shown)
    assert not waits(waiting(500, "n1"))


def test_it_may_be_the_end_of_another_fragment_that_slurm_plans_with() -> None:
    """Slurm takes ends within half a minute together, and plans for the last of them."""
    assert waits(waiting(1020, "n1"), fragments=(lent("n1", 1000), lent("n2", 1020)))


@pytest.mark.parametrize(
    "job",
    [
        waiting(LIMIT_S, "n1", priority=0),
        waiting(LIMIT_S, "n1", partition="freetrain"),
        waiting(LIMIT_S, "n3"),
        waiting(LIMIT_S, "n1", planned_nodes=frozenset()),
        waiting(LIMIT_S, "n1", start_s=None),
        waiting(LIMIT_S, "n1", state=JobState.RUNNING),
        waiting(LIMIT_S + 60, "n1"),
    ],
    ids=["held", "a trainer", "on nodes not lent", "no nodes", "no plan", "runs", "later than the limit"],
)
def test_who_does_not_wait_for_fragments(job: Job) -> None:
    assert waits(job) == []


def test_who_was_planned_first_does_not_wait_for_the_fragment_that_was_fitted_to_the_plan() -> None:
    for margin_s in (5, 30, 60):
        assert waits(waiting(3600, "n1"), fragments=(lent("n1", 3600 - margin_s),)) == []


def test_who_waits_for_the_sites_own_does_not_wait_for_fragments() -> None:
    plan = waiting(LIMIT_S, "n1", "n3")
    assert waits(plan, running(LIMIT_S, "n3")) == []
    assert waits(plan, running(None, "n3")) == []
    assert waits(plan, running(600, "n3")), "that one is gone long before"
    reserved = (Reservation("m", frozenset({"n3"}), NOW_S + 60, NOW_S + LIMIT_S),)
    assert waits(plan, reservations=reserved) == []


def test_the_end_of_one_of_the_sites_jobs_that_is_about_the_same_explains_a_start_too() -> None:
    plan = waiting(60, "n1")
    beside = (lent("n1", 60),)
    assert waits(plan, running(35, "n1"), fragments=beside) == [], "Slurm plans in steps of a minute"
    assert waits(plan, fragments=beside), "here nothing but the fragment is in its way"
    assert waits(waiting(600, "n1"), running(535, "n1"), fragments=(lent("n1", 600),))


def test_who_comes_after_another_that_is_planned_there_waits_for_that() -> None:
    first = replace(waiting(LIMIT_S - 600, "n1"), id="8")
    assert [wait.job for wait in waits(first, waiting(LIMIT_S, "n1"))] == []


def test_fragments_that_leave_already_are_not_waited_for() -> None:
    assert waits(waiting(LIMIT_S, "n1"), fragments=(replace(lent("n1"), state=FragmentState.LEAVING),)) == []
