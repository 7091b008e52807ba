"""When Slurm would plan a job, going by the ends of running ones and by what is reserved."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition
from freetrain.lending.shadow.machine import Machine
from freetrain.lending.shadow.schedule import Reserved, Running
from tests.facts import node

NOW_S = 900_000.0  # a multiple of 30 s, to which Slurm aligns its groups
ALL = 0b1111


def running(*for_s: float) -> Running:
    """One node each, busy for so long."""
    names = [f"n{number}" for number in range(len(for_s))]
    jobs = tuple(
        Job(name, name, "news", "main", JobState.RUNNING, nodes=frozenset({name}), end_s=NOW_S + each)
        for name, each in zip(names, for_s, strict=True)
        if each
    )
    nodes = tuple(node(name, "ALLOCATED" if each else "IDLE") for name, each in zip(names, for_s, strict=True))
    partitions = {"main": Partition("main", frozenset(names))}
    return Running(Machine(Snapshot(NOW_S, nodes, jobs, partitions=partitions), frozenset(), {}))


def first_s(found: Running, count: int, nodes: int = ALL) -> float:
    return found.first_s(nodes, count) - NOW_S


def test_ends_that_lie_close_together_are_tried_together() -> None:
    found = running(0, 45, 63, 200)
    assert first_s(found, 1) == 0
    assert first_s(found, 2) == 63, "not after 45 s: both ends are in the first group, until 90 s"
    assert first_s(found, 4) == 200


def test_groups_become_longer() -> None:
    found = running(10, 100, 115, 170)
    assert first_s(found, 1) == 10, "the first group lasts until 60 s"
    assert first_s(found, 2) == 115, "the next one until 30 + 120 s"
    assert first_s(found, 4) == 170


def test_ends_of_jobs_that_have_none_of_the_wanted_nodes_do_not_count() -> None:
    found = running(45, 50, 0, 0)
    assert first_s(found, 3, 0b1101) == 45
    assert first_s(found, 4, 0b1101) == inf


def test_who_begins_now_is_in_the_way_until_it_ends() -> None:
    found = running(0, 0, 100, 300)
    found.begin(0b0001, NOW_S + 200)
    assert first_s(found, 1) == 0
    assert first_s(found, 2) == 100
    assert first_s(found, 3) == 200
    found.begin(0b0010, inf)
    assert first_s(found, 4) == inf
    assert found.room_at_first(None) == 0b0011
    assert found.free_at(NOW_S) == 0


@given(
    st.lists(st.sampled_from((0.0, 10.0, 45.0, 50.0, 100.0, 3000.0)), min_size=4, max_size=4), st.integers(1, 4)
)
def test_a_start_is_an_end_after_which_there_are_enough(for_s: list[float], count: int) -> None:
    found = running(*for_s)
    start_s = first_s(found, count)
    assert start_s in {0.0, *for_s}
    assert sum(each <= start_s for each in for_s) >= count
    assert (start_s == 0) == (sum(each == 0 for each in for_s) >= count)


def test_what_is_reserved_changes_from_moment_to_moment() -> None:
    found = Reserved()
    found.add(100.0, 300.0, 0b001)
    found.add(200.0, inf, 0b010)
    assert found.between(0.0, 99.0) == 0
    assert found.between(0.0, 100.0) == 0b001, "who ends as another begins is in its way"
    assert found.between(300.0, 400.0) == 0b010
    assert found.between(150.0, 250.0) == 0b011
    assert [found.changes_after(moment_s) for moment_s in (0.0, 100.0, 250.0, 300.0)] == [100.0, 200.0, 300.0, inf]


stretches = st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 15))


@given(st.lists(stretches, max_size=8), st.integers(0, 20), st.integers(0, 20))
def test_all_that_is_reserved_at_some_time_is_found(
    plans: list[tuple[int, int, int]], begin_s: int, length_s: int
) -> None:
    found, expected = Reserved(), 0
    for first, long, nodes in plans:
        found.add(float(first), float(first + long), nodes)
        if first <= begin_s + length_s and first + long > begin_s:
            expected |= nodes
    assert found.between(float(begin_s), float(begin_s + length_s)) == expected
