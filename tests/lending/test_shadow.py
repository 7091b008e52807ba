from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, WaitsFor
from freetrain.core.node import Partition, Reservation
from freetrain.lending.shadow import (
    NO_SHADOW,
    BackfillRules,
    PlannedStart,
    PlansCompared,
    Shadow,
    compare_plans,
    find_shadow,
)
from tests.facts import node

NOW_S = 999_960.0
NAMES = tuple(f"n{number}" for number in range(1, 9))
PARTITIONS = {
    "main": Partition("main", frozenset(NAMES), priority_tier=5),
    "debug": Partition("debug", frozenset(NAMES[4:]), priority_tier=9, max_time_s=1800.0),
    "down": Partition("down", frozenset(NAMES), is_up=False),
    "freetrain": Partition("freetrain", frozenset(NAMES)),
}


def snapshot(*jobs: Job, reservations: tuple[Reservation, ...] = ()) -> Snapshot:
    taken = {name for job in jobs for name in job.nodes}
    nodes = tuple(node(name, "ALLOCATED" if name in taken else "IDLE") for name in NAMES)
    return Snapshot(NOW_S, nodes, jobs, reservations, PARTITIONS)


def waiting(id_: str, nodes: int, limit_s: float = 600.0, **facts: object) -> Job:
    job = Job(id_, id_, "news", "main", JobState.PENDING, "Priority", node_count=nodes, limit_s=limit_s)
    return replace(job, submitted_s=NOW_S - 100 + int(id_), **facts)  # type: ignore[arg-type]


def running(id_: str, names: tuple[str, ...], for_s: float | None, partition: str = "main") -> Job:
    end_s = None if for_s is None else NOW_S + for_s
    return Job(id_, id_, "news", partition, JobState.RUNNING, nodes=frozenset(names), end_s=end_s)


def shadow_of(found: Snapshot, lent: dict[str, str] | None = None, rules: BackfillRules | None = None) -> Shadow:
    fragments = frozenset(job.id for job in found.jobs if job.partition == "freetrain")
    return find_shadow(found, FragmentQueue("freetrain"), fragments, lent or {}, rules or BackfillRules())


def starts(shadow: Shadow) -> dict[str, float]:
    return {plan.job: plan.start_s - NOW_S for plan in shadow.plans}


def test_a_job_starts_when_enough_running_jobs_have_reached_their_limits() -> None:
    shadow = shadow_of(snapshot(running("1", NAMES[:3], 300), running("2", NAMES[3:5], 900), waiting("3", 6)))
    assert starts(shadow) == {"3": 300.0}
    assert set(shadow.wanted) == {"n1", "n2", "n3", "n6", "n7", "n8"}
    assert shadow.kept == {}
    assert not shadow.fitting


def test_a_smaller_job_starts_before_it_only_if_it_ends_in_time() -> None:
    busy = running("1", NAMES[:3], 600)
    queue = (waiting("3", 8), waiting("4", 2, 480.0), waiting("5", 2, 540.0), waiting("6", 2, 1200.0))
    shadow = shadow_of(snapshot(busy, *queue))
    assert starts(shadow) == {"3": 600.0, "4": 0.0, "5": 0.0, "6": 1200.0}
    assert sorted(shadow.kept.values()) == ["4", "4", "5", "5"]
    ends_as_the_plan_begins = waiting("4", 2, 600.0)
    assert starts(shadow_of(snapshot(busy, queue[0], ends_as_the_plan_begins)))["4"] == 1200.0


def test_the_higher_tier_comes_first_then_the_higher_priority_then_who_came_first() -> None:
    queue = (
        waiting("1", 8),
        waiting("2", 8),
        waiting("3", 8, priority=7),
        waiting("4", 4, 540.0, partition="main,debug"),
    )
    assert list(starts(shadow_of(snapshot(*queue)))) == ["4", "3", "1", "2"]


def test_a_limit_is_never_longer_than_the_partitions_and_never_endless() -> None:
    queue = (waiting("1", 4, inf, partition="debug"), waiting("2", 4, partition="debug"), waiting("3", 4, inf))
    later = replace(waiting("4", 4), required_nodes=frozenset(NAMES[:4]))
    rules = BackfillRules(window_s=500 * 86400.0)
    assert starts(shadow_of(snapshot(*queue, later), rules=rules)) == {
        "1": 0.0,
        "2": 1800.0,
        "3": 0.0,
        "4": 365 * 86400.0,
    }


def test_nobody_runs_into_a_reservation() -> None:
    reserved = Reservation("maintenance", frozenset(NAMES[:6]), NOW_S + 480.0, NOW_S + 3600.0)
    shadow = shadow_of(snapshot(waiting("1", 4), waiting("2", 2), reservations=(reserved,)))
    assert starts(shadow) == {"1": 3600.0, "2": 0.0}
    assert set(shadow.kept) == {"n7", "n8"}


def test_fragments_do_not_exist_in_it_and_idle_nodes_are_taken_before_lent_ones() -> None:
    fragments = [running(f"9_{number}", (NAMES[number],), 3600, "freetrain") for number in range(5)]
    lent = dict.fromkeys(NAMES[:4], "9") | {"n5": "8"}
    shadow = shadow_of(snapshot(*fragments, waiting("1", 4)), lent)
    assert starts(shadow) == {"1": 0.0}
    assert {"n6", "n7", "n8"} < set(shadow.kept)
    assert "n5" not in shadow.kept, "a node of the largest trainer's is taken"
    planned = replace(waiting("1", 4), planned_nodes=frozenset({"n5"}), start_s=NOW_S + 3600)
    assert "n5" in shadow_of(snapshot(*fragments, planned), lent).kept, "Slurm has planned it there"


def test_a_node_that_is_being_cleared_is_taken_last() -> None:
    leaving = replace(running("7", ("n1",), 3600), state=JobState.COMPLETING)
    lent = {"n2": "9"}
    fragment = running("9_0", ("n2",), 3600, "freetrain")
    found = snapshot(leaving, fragment, waiting("1", 7))
    assert "n1" not in shadow_of(found, lent).kept
    assert "n1" in shadow_of(snapshot(leaving, fragment, waiting("1", 8)), lent).kept


def test_a_node_that_is_being_given_back_is_taken_before_another_is_asked_back() -> None:
    back = replace(running("9_0", ("n1",), 3600, "freetrain"), state=JobState.COMPLETING)
    others = [running(f"9_{number}", (NAMES[number],), 3600, "freetrain") for number in range(1, 8)]
    shadow = shadow_of(snapshot(back, *others, waiting("1", 1)), dict.fromkeys(NAMES[1:], "9"))
    assert shadow.kept == {"n1": "1"}


def test_nobody_starts_on_a_node_whose_job_has_no_end_or_is_not_shown() -> None:
    hidden = snapshot(running("1", ("n1",), None), waiting("2", 7))
    hidden = replace(hidden, nodes=(*hidden.nodes[:7], node("n8", "MIXED")))
    assert starts(shadow_of(hidden)) == {}


@pytest.mark.parametrize(
    "facts",
    [
        {"waits_for": WaitsFor.OTHER},
        {"priority": 0},
        {"node_count": 0},
        {"waits_for": WaitsFor.RELEASE},
        {"partition": "down"},
        {"partition": "gone"},
        {"partition": "freetrain"},
        {"features": "gpu"},
        {"state": JobState.RUNNING},
    ],
)
def test_jobs_that_wait_for_something_else_have_no_place_in_it(facts: dict[str, object]) -> None:
    shadow = shadow_of(snapshot(waiting("1", 2, **facts)))
    assert shadow.plans == ()
    assert not shadow.fitting


def test_who_is_not_believed_gets_nothing_and_delays_nobody() -> None:
    found = snapshot(waiting("1", 8), waiting("2", 8))
    shadow = find_shadow(found, FragmentQueue("freetrain"), frozenset(), {}, BackfillRules(), frozenset({"1"}))
    assert starts(shadow) == {"2": 0.0}
    assert shadow.fitting == {"1", "2"}


def test_whose_nodes_another_job_waits_for_does_not_fit() -> None:
    shadow = shadow_of(snapshot(running("1", ("n1",), 600), waiting("2", 8), waiting("3", 1, 900.0)))
    assert not shadow.fitting


def test_as_many_tasks_of_an_array_start_as_there_are_nodes_for_and_twenty_later() -> None:
    shadow = shadow_of(snapshot(running("1", NAMES[:4], 300), waiting("2", 1, tasks=60)))
    planned = [(plan.start_s - NOW_S, len(plan.nodes)) for plan in shadow.plans]
    assert planned == [(300.0 * number, 4) for number in range(6)]
    assert len(shadow.kept) == 4


def test_an_array_as_large_as_the_machine_takes_no_longer_than_a_job() -> None:
    names = tuple(f"c{number}" for number in range(8000))
    site = {"main": Partition("main", frozenset(names))}
    queue = (waiting("1", 1, tasks=100_000), waiting("2", 2, tasks=100_000))
    found = Snapshot(NOW_S, tuple(node(name) for name in names), queue, partitions=site)
    shadow = shadow_of(found)
    assert [len(plan.nodes) for plan in shadow.plans] == [8000, 20, 40]


def test_it_looks_no_further_than_slurm_does() -> None:
    queue = [waiting(str(number), 8) for number in range(1, 9)]
    assert len(shadow_of(snapshot(*queue), rules=BackfillRules(window_s=1200.0)).plans) == 3
    assert len(shadow_of(snapshot(*queue), rules=BackfillRules(most_jobs=5)).plans) == 5


queues = st.lists(
    st.builds(
        waiting,
        st.just("1"),
        st.integers(1, 8),
        st.sampled_from((60.0, 90.0, 300.0, 1000.0, 4000.0, inf)),
        partition=st.sampled_from(("main", "debug", "main,debug")),
        priority=st.integers(1, 3),
        tasks=st.integers(1, 3),
        required_nodes=st.just(frozenset[str]()) | st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=4),
    ),
    max_size=8,
)
ends = st.lists(st.none() | st.sampled_from((-5.0, 30.0, 300.0, 333.0, 5000.0, inf)), min_size=8, max_size=8)


@given(queues, ends, st.frozensets(st.sampled_from(NAMES)))
def test_each_job_starts_now_if_it_can_and_never_delays_those_before_it(
    queue: list[Job], ends: list[float | None], lent: frozenset[str]
) -> None:
    busy_for_s = {name: end for name, end in zip(NAMES, ends, strict=True) if end is not None and name not in lent}
    jobs = {str(number): replace(job, id=str(number)) for number, job in enumerate(queue, 10)}
    site = [running(f"1{name}", (name,), None if end == inf else end) for name, end in busy_for_s.items()]
    fragments = [running(f"9_{name}", (name,), 60.0, "freetrain") for name in lent]
    shadow = shadow_of(snapshot(*jobs.values(), *site, *fragments), dict.fromkeys(lent, "9"))
    free_s = {name: NOW_S + (max(1.0, busy_for_s[name]) if name in busy_for_s else 0.0) for name in NAMES}
    before: list[PlannedStart] = []
    for plan in shadow.plans:
        job = jobs[plan.job]
        assert len(plan.nodes) in range(job.node_count, (job.tasks + 1) * job.node_count, job.node_count)
        assert plan.nodes <= could_start(job, plan.start_s, free_s, before, jobs)
        if plan.start_s > NOW_S:
            assert len(could_start(job, NOW_S, free_s, before, jobs)) < job.node_count
        assert plan.start_s in {NOW_S, *free_s.values(), *(ends_of(planned, jobs) for planned in before)}
        before.append(plan)
    assert {plan.job for plan in shadow.plans if plan.start_s == NOW_S} <= shadow.fitting


def could_start(
    job: Job, moment_s: float, free_s: dict[str, float], before: list[PlannedStart], jobs: dict[str, Job]
) -> set[str]:
    end_s = moment_s + limit_of(job)
    taken = {
        name
        for plan in before
        if (NOW_S if plan.start_s == NOW_S else plan.start_s // 60 * 60) <= end_s
        and ends_of(plan, jobs) > moment_s
        for name in plan.nodes
    }
    mine = {name for each in job.partition.split(",") for name in PARTITIONS[each].nodes}
    wanted = mine & job.required_nodes if job.required_nodes else mine
    return {name for name in wanted - taken if free_s[name] <= moment_s}


def ends_of(plan: PlannedStart, jobs: dict[str, Job]) -> float:
    end_s = plan.start_s + limit_of(jobs[plan.job])
    return end_s if plan.start_s == NOW_S else max(end_s // 60 * 60, plan.start_s // 60 * 60 + 60)


def limit_of(job: Job) -> float:
    return min([job.limit_s, 365 * 86400.0, *(PARTITIONS[each].max_time_s for each in job.partition.split(","))])


def test_slurms_plan_is_compared_where_both_have_one() -> None:
    shadow = Shadow(
        NOW_S, tuple(PlannedStart(job, NOW_S + 600, frozenset()) for job in ("1", "2", "3")), frozenset()
    )
    job = Job("1", "1", "games", "main", JobState.PENDING, start_s=NOW_S + 630)
    jobs = (
        job,
        replace(job, id="2", start_s=NOW_S + 900),
        replace(job, id="3", start_s=None),
        replace(job, id="4"),
    )
    assert compare_plans(shadow, jobs, 90.0) == PlansCompared(jobs=2, differing=1)


@st.composite
def looks(draw: st.DrawFn) -> list[Snapshot]:
    """Looks at a machine whose queue, and now and then whose running jobs, change from one to the next."""
    limits_s = st.sampled_from((60.0, 300.0, 600.0, 1800.0))

    def queued(number: int) -> Job:
        partition = draw(st.sampled_from(("main", "debug")))
        tasks = draw(st.sampled_from((1, 1, 1, 3)))
        return waiting(str(number), draw(st.integers(1, 6)), draw(limits_s), partition=partition, tasks=tasks)

    busy = [running("1", NAMES[:4], draw(st.floats(30, 900))), running("2", NAMES[4:6], draw(st.floats(30, 900)))]
    queue = [queued(number) for number in range(10, 10 + draw(st.integers(1, 8)))]
    now_s, found = NOW_S, []
    for number in range(draw(st.integers(2, 6))):
        change = draw(st.sampled_from(("none", "none", "comes", "goes", "ends", "hurries")))
        if change == "comes":
            queue.append(queued(100 + number))
        elif change == "goes" and queue:
            queue.pop(draw(st.integers(0, len(queue) - 1)))
        elif change == "ends" and busy:
            busy.pop()
        elif change == "hurries" and queue:
            queue[-1] = replace(queue[-1], priority=5)
        found.append(replace(snapshot(*busy, *queue), time_s=now_s))
        now_s += draw(st.sampled_from((0.0, 1.0, 10.0, 60.0, 240.0)))
    return found


@given(looks(), st.booleans())
def test_what_is_kept_of_the_look_before_changes_nothing(found: list[Snapshot], doubts: bool) -> None:
    queue, rules, before = FragmentQueue("freetrain"), BackfillRules(window_s=1500.0), NO_SHADOW
    for look in found:
        disbelieved = frozenset({"10", "11"}) if doubts else frozenset[str]()
        again = find_shadow(look, queue, frozenset(), {}, rules, disbelieved)
        kept = find_shadow(look, queue, frozenset(), {}, rules, disbelieved, before=before)
        assert kept == again
        before = kept


def test_a_look_at_the_same_jobs_searches_for_none_of_them_anew() -> None:
    first = shadow_of(snapshot(running("1", NAMES[:6], 900), waiting("3", 8), waiting("4", 8), waiting("5", 4)))
    later = replace(snapshot(running("1", NAMES[:6], 900), waiting("3", 8), waiting("4", 8), waiting("5", 4)),
                    time_s=NOW_S + 60.0)  # fmt: skip
    queue, rules = FragmentQueue("freetrain"), BackfillRules()
    again = find_shadow(later, queue, frozenset(), {}, rules, before=first)
    assert len(first.searches.all) == 3
    assert all(search is other for search, other in zip(first.searches.all, again.searches.all, strict=True))


@given(looks(), st.floats(0.0, 1.0))
def test_until_its_next_change_time_alone_changes_nothing(found: list[Snapshot], share: float) -> None:
    queue, rules, first = FragmentQueue("freetrain"), BackfillRules(window_s=1500.0), found[0]
    shadow = find_shadow(first, queue, frozenset(), {}, rules)
    # A job that is a second before its limit, or beyond it, may end any second: that would be an event.
    ends_s = [job.end_s for job in first.jobs if job.end_s is not None and job.end_s > first.time_s]
    until_s = min(shadow.changes_s, first.time_s + 3600.0, *ends_s)
    later_s = first.time_s + share * max(0.0, until_s - first.time_s - 1.001)
    later = find_shadow(replace(first, time_s=later_s), queue, frozenset(), {}, rules)
    assert later.kept == shadow.kept
    # What starts now ends later the later that is, and so do the plans behind it.
    assert shadow.kept or later.plans == shadow.plans
