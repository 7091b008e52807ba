"""Tasks that will soon have ended keep their places, and who waits for his share waits so long and no longer."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given

from freetrain.core.fragment import Fragment
from freetrain.core.node import Node
from freetrain.core.place import Place
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Request
from freetrain.lending.rules import Share
from freetrain.lending.sharing.claims import Claimant, Shares, SizeRange
from freetrain.lending.sharing.dealing import deal
from tests.facts import node
from tests.lending.test_dealing_parts import Problem, left_after, offers_of, problems
from tests.lending.test_parts_of_nodes import (
    NODES,
    NOW_S,
    ONE_GPU,
    RULES,
    gpu_node,
    judged,
    lent,
    request,
    snapshot,
)


def filler(trainer: str, owner: str, task_s: float, most_lost_s: float = inf) -> Request:
    """Tasks of one GPU each."""
    alone = Trainer(trainer, ((1, 1.0), (99, 99.0)), independent=True)
    return Request(alone, owner, needs=ONE_GPU, task_s=task_s, most_lost_s=most_lost_s)


def running(ran_s: float, count: int = 8) -> list[Fragment]:
    return [replace(lent("n1", number), started_s=NOW_S - ran_s) for number in range(count)]


def full_node() -> Node:
    return gpu_node("n1", 16, 800, 8)


@pytest.mark.parametrize(
    ("task_s", "ran_s", "most_lost_s", "given_up"),
    [
        (30.0, 10.0, inf, 0),
        (30.0, 59.0, inf, 0),
        (30.0, 61.0, inf, 4),
        (600.0, 550.0, inf, 0),
        (600.0, 530.0, inf, 4),
        (600.0, 601.0, inf, 4),
        (0.0, 10.0, inf, 4),
        (30.0, 10.0, 0.0, 4),
    ],
    ids=[
        "short",
        "short, just within a minute",
        "longer than expected",
        "nearly done",
        "more than a minute is left",
        "should have ended",
        "nobody knows",
        "it has saved",
    ],
)
def test_a_task_ends_for_the_share_of_others_unless_it_will_soon_have_ended(
    task_s: float, ran_s: float, most_lost_s: float, given_up: int
) -> None:
    two = filler("7", "news", task_s, most_lost_s), request("8", ONE_GPU, "games")
    found = judged(snapshot(full_node()), *two, lent_parts=running(ran_s))
    assert sum(len(release.nodes) for release in found.allotment.releases) == given_up
    assert {len(nodes) for _, nodes in found.allotment} == ({8} if not given_up else {4})


def test_what_comes_free_goes_to_who_waits_for_his_share() -> None:
    two = filler("7", "news", 30.0), request("8", ONE_GPU, "games")
    found = judged(snapshot(gpu_node("n1", 12, 600, 6)), *two, lent_parts=running(10.0, 6))
    assert found.allotment.releases == []
    assert sorted(len(part) for part in found.allotment.dealt.places.values()) == [2, 6]


def test_of_whole_nodes_it_is_the_same() -> None:
    names = ("n1", "n2", "n3", "n4")
    rules = replace(RULES, nodes=replace(NODES, share=Share.WHOLE))
    tasks = [replace(lent(name, number), started_s=NOW_S - 10) for number, name in enumerate(names)]
    seen = snapshot(*(node(name, "IDLE") for name in names))
    for task_s, given_up in ((30.0, 0), (0.0, 2)):
        two = (
            replace(filler(who, of, task_s), needs=Request(Trainer("x", ((1, 1.0),)), "").needs)
            for who, of in (("7", "news"), ("8", "games"))
        )
        found = judged(seen, *two, lent_parts=tasks, rules=rules)
        assert sum(len(release.nodes) for release in found.allotment.releases) == given_up


def test_who_shares_with_nobody_is_left_to_his_own_decision() -> None:
    found = judged(snapshot(full_node()), filler("7", "news", 30.0), lent_parts=running(10.0))
    assert [claimant.settled for claimant in found.allotment.claimants] == [()]


@given(problems())
def test_what_is_settled_stays_and_the_others_are_dealt_the_rest(problem: Problem) -> None:
    rooms, claimants, held = problem
    stay = {name for number, name in enumerate(held) if number % 2}
    of = {
        claimant.key: tuple(name for name in held if held[name] == f"{claimant.key}0" and name in stay)
        for claimant in claimants
    }
    settled = [replace(claimant, settled=of[claimant.key]) for claimant in claimants]
    found = deal(offers_of(rooms, held), settled, Shares(), rooms)
    assert None not in left_after(problem, found).values()
    assert not stay & found.leaving.keys()
    for claimant in settled:
        part, want = found.places[claimant.key], claimant.wants[0]
        assert part[: len(claimant.settled)] == claimant.settled
        assert len(part) == len(set(part)) <= max(want.max_nodes, len(claimant.settled))


def test_a_share_counts_what_is_settled() -> None:
    nodes = [Place(f"n{number}", holder="a0" if number < 3 else None) for number in range(6)]
    every = frozenset(place.name for place in nodes)
    two = [Claimant(user, (f"user {user}",), (SizeRange(f"{user}0", 1, 9),), every) for user in "ab"]
    found = deal(nodes, [replace(two[0], settled=("n0", "n1")), two[1]])
    assert {key: len(part) for key, part in found.places.items()} == {"a": 3, "b": 3}
    assert found.leaving == {}
