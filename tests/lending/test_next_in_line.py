"""Nodes that are kept free for the first waiting job when one more end lets it start."""

from __future__ import annotations

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, WaitsFor
from freetrain.core.node import Partition
from freetrain.core.place import Place
from freetrain.lending.node_verdicts import nodes_of_next
from freetrain.lending.offers import shadow_of
from freetrain.lending.rules import NodeRules
from freetrain.lending.sightings import Sightings
from tests.facts import node

NOW_S = 1_000_000.0
LEFT, RIGHT = frozenset({"a1", "a2", "a3", "a4"}), frozenset({"b1", "b2"})
RULES = NodeRules(FragmentQueue("freetrain"), next_within_s=60.0)


def running(number: int, *names: str, age_s: float = 20.0, left_s: float = 600.0) -> Job:
    return Job(
        str(number), str(number), "games", "main", JobState.RUNNING, nodes=frozenset(names),
        start_s=NOW_S - age_s, end_s=NOW_S + left_s, limit_s=age_s + left_s,
    )  # fmt: skip


def waiting(number: int, wants: int, partition: str = "main") -> Job:
    return Job(
        str(number), str(number), "games", partition, JobState.PENDING, node_count=wants,
        submitted_s=NOW_S - 1000 + number, limit_s=600.0, waits_for=WaitsFor.NODES,
    )  # fmt: skip


def kept(*jobs: Job, rules: NodeRules = RULES, lent: tuple[str, ...] = ()) -> set[str]:
    busy = frozenset().union(*(one.nodes for one in jobs))
    names = sorted(LEFT | RIGHT)
    partitions = {"main": LEFT, "other": RIGHT, "freetrain": LEFT | RIGHT}
    found = Snapshot(
        NOW_S,
        tuple(node(name, "ALLOCATED" if name in busy else "IDLE") for name in names),
        jobs,
        partitions={name: Partition(name, its) for name, its in partitions.items()},
    )
    offered = [Place(name, None, "7" if name in lent else None) for name in names if name not in busy]
    return set(nodes_of_next(offered, shadow_of(found, (), rules, Sightings()), found, rules))


def test_its_nodes_are_kept_lent_or_not_when_one_young_job_is_in_the_way() -> None:
    assert kept(running(1, "a1"), waiting(2, 4), lent=("a3",)) == {"a2", "a3", "a4"}


def test_an_end_that_is_expected_late_keeps_nothing() -> None:
    assert kept(running(1, "a1", age_s=300.0), waiting(2, 4)) == set()
    assert kept(running(1, "a1", age_s=300.0, left_s=40.0), waiting(2, 4)) == {"a2", "a3", "a4"}
    assert kept(running(1, "a1"), waiting(2, 4), rules=NodeRules(FragmentQueue("freetrain"))) == set()


def test_where_more_than_one_has_to_end_nothing_is_kept() -> None:
    assert kept(running(1, "a1"), running(2, "a2"), waiting(3, 4)) == set()
    assert kept(running(1, "a1", "a2"), waiting(3, 4)) == {"a3", "a4"}


def test_only_the_first_of_each_partition_is_next() -> None:
    assert kept(running(1, "a1", "a2", "a3"), waiting(2, 3), waiting(3, 2)) <= {"a4"}
    assert kept(running(1, "b1"), waiting(2, 2, "other")) == {"b2"}


def test_an_end_in_another_partition_helps_nobody() -> None:
    elsewhere = running(1, "b1")
    assert kept(elsewhere, running(2, "a1", age_s=300.0), waiting(3, 4)) == set()


def test_who_can_start_now_is_not_next() -> None:
    assert kept(running(1, "a1"), waiting(2, 3)) == set()
