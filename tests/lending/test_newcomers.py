from __future__ import annotations

from dataclasses import replace

from freetrain.core.cluster import Job, JobState, Partition, Snapshot, WaitsFor
from freetrain.core.problem import Offer
from freetrain.lending.newcomers import Newcomers
from freetrain.lending.offers import shadow_of
from freetrain.lending.rules import NodeRules
from freetrain.lending.sightings import Sightings
from tests.facts import node

NOW_S = 1_000_000.0
LEFT, RIGHT = frozenset({"a1", "a2", "a3", "a4"}), frozenset({"b1", "b2", "b3"})


def job(number: int, wants: int, partition: str = "main", **facts: object) -> Job:
    one = Job(
        str(number), str(number), "games", partition, JobState.PENDING, node_count=wants,
        submitted_s=NOW_S - 1000 + number, limit_s=600.0, waits_for=WaitsFor.NODES,
    )  # fmt: skip
    return replace(one, **facts)  # type: ignore[arg-type]


def running(number: int, *names: str, partition: str = "main") -> Job:
    return job(number, len(names), partition, state=JobState.RUNNING, nodes=frozenset(names), end_s=NOW_S + 300)


def snapshot(*jobs: Job) -> Snapshot:
    busy = frozenset().union(*(one.nodes for one in jobs))
    nodes = tuple(node(name, "ALLOCATED" if name in busy else "IDLE") for name in sorted(LEFT | RIGHT))
    partitions = {"main": LEFT, "other": RIGHT, "freetrain": LEFT | RIGHT}
    return Snapshot(
        NOW_S, nodes, jobs, partitions={name: Partition(name, its) for name, its in partitions.items()}
    )


def kept(seen: Newcomers, found: Snapshot, *offered: Offer, share: float = 0.75) -> dict[str, str]:
    shadow = shadow_of(found, (), NodeRules("freetrain"), Sightings())
    return dict(seen.kept(offered, shadow, found, share))


def test_newcomers_are_counted_once_each_by_partition() -> None:
    first = snapshot(job(1, 2), job(2, 4), job(3, 1, "other"), job(4, 9, "freetrain"))
    seen = Newcomers().after(first, "freetrain")
    again = seen.after(snapshot(job(2, 4), job(5, 3), job(6, 2, "main,other")), "freetrain")
    sizes = {partition: [size for _, size in each] for partition, each in again.sizes.items()}
    assert sizes == {"main": [2, 4, 3, 2], "other": [1, 2]}


def test_only_the_newest_ones_tell_how_large_the_next_will_be() -> None:
    large = (job(number, 4, user=f"u{number}") for number in range(1, 101))
    small = (job(number, 1, user=f"u{number}") for number in range(101, 301))
    sizes = Newcomers().after(snapshot(*large, *small), "freetrain").sizes["main"]
    assert [size for _, size in sizes] == [1] * 200


def test_who_waits_for_more_than_nodes_tells_nothing() -> None:
    others = job(1, 4, waits_for=WaitsFor.OWNERS_LIMIT), job(2, 4, priority=0.0)
    seen = Newcomers().after(snapshot(*others, job(3, 1)), "freetrain")
    assert seen.sizes["main"] == (("games", 1),)


def test_one_user_cannot_keep_all_nodes_from_being_lent() -> None:
    small = (job(number, 1, user=f"u{number}") for number in range(1, 151))
    large = (job(number, 4, user="eve") for number in range(151, 600))
    seen = Newcomers().after(snapshot(*small, *large), "freetrain")
    assert seen.nodes_for("main", 0.75) == 1


def test_three_of_four_newcomers_find_enough_nodes() -> None:
    seen = Newcomers({"main": (("u1", 1), ("u2", 8), ("u3", 1), ("u4", 2))})
    assert [seen.nodes_for("main", share) for share in (0.0, 0.5, 0.75, 1.0)] == [0, 1, 2, 8]
    assert seen.nodes_for("other", 0.75) == 0


def test_behind_a_waiting_job_idle_nodes_are_kept_those_first_that_are_wanted_soonest() -> None:
    found = snapshot(running(1, "a1"), job(2, 4))
    offers = (Offer("a2"), Offer("a3", NOW_S + 200), Offer("a4", NOW_S + 100), Offer("b1"))
    assert kept(Newcomers({"main": (("u1", 2), ("u2", 2))}), found, *offers) == {
        "a3": "kept for new jobs of main while job 2 waits",
        "a4": "kept for new jobs of main while job 2 waits",
    }


def test_nothing_is_kept_where_new_jobs_start_at_once_or_lent_nodes_taken_back() -> None:
    seen = Newcomers({"main": (("u1", 2),), "other": (("u2", 2),)})
    assert kept(seen, snapshot(running(1, "a1")), Offer("a2")) == {}
    blocked = snapshot(running(1, "a1"), job(2, 4))
    assert kept(seen, blocked, Offer("b1"), Offer("a2", held_by="7")) == {}
    assert kept(seen, blocked, Offer("a2"), share=0.0) == {}
