"""GADGET with bandwidth reserved: what does not fit is placed elsewhere, or not at all."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from time import perf_counter

import pytest

from benchmarks.experiments.gadget import RingModel
from benchmarks.problems import mixed_problem
from freetrain.core.decision import Decision
from freetrain.core.place import Place, node_of
from freetrain.core.problem import Problem
from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.loop import deciding
from freetrain.policies import FIRST_NODES, UNKNOWN_LINKS, Links, find_policy, with_links

CURVE = ((1, 100.0), (2, 190.0), (4, 360.0))
TEN_MB = 1e7
"""With which a ring of two needs 7.6 Gbit/s, one of three 9.8 and one of four 10.8 of each of its links."""
LEAVES = Topology({f"n{number}": f"leaf{number // 2}" for number in range(8)})


def trainer(id_: str, **more: object) -> Trainer:
    given = {"bytes_per_sample": TEN_MB, "target_samples": 1e6, "scale_up_s": 0.0, **more}
    return Trainer(id_, CURVE, **given)  # type: ignore[arg-type]


def places(*nodes: str, holder: str | None = None) -> tuple[Place, ...]:
    """A place on each of them, which are lent in parts."""
    seen = Counter[str]()
    names = []
    for node in nodes:
        seen[node] += 1
        names.append(f"{node}#{'' if holder else '+'}{seen[node]}")
    return tuple(Place(name, holder=holder) for name in names)


def whole(count: int) -> tuple[Place, ...]:
    return tuple(Place(f"n{number}") for number in range(count))


def decide(
    nodes: tuple[Place, ...],
    trainers: tuple[Trainer, ...],
    links: Links,
    others: tuple[tuple[tuple[Place, ...], tuple[Trainer, ...]], ...] = (),
) -> Decision:
    """Beside questions that are decided later in the same look."""
    problem = Problem(0.0, nodes, trainers, 3600.0)
    policy, placer = with_links(find_policy("gadget"), FIRST_NODES, links, ((nodes, trainers), *others))
    decision = deciding.decide(policy, problem, perf_counter, placer)
    assert verify(problem, decision) == ()
    assert decision.solver == "gadget", decision.notes
    return decision


def nodes_of(decision: Decision) -> dict[str, list[str]]:
    return {id_: sorted(map(node_of, names)) for id_, names in decision.placement.items()}


def of_gbit(node: float, uplink: float = 0.0, topology: Topology = FLAT) -> Links:
    return Links.of_gbit(node, uplink, topology)


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_a_ring_needs_what_its_gradients_are_divided_by_its_step(nodes: int) -> None:
    """As in GADGET's ring model, but for the step that was measured."""
    samples, gradient_bytes = 192.0, 98e6
    one = trainer("x", bytes_per_sample=gradient_bytes / samples)
    step_s = samples * nodes / one.rate(nodes)
    model = RingModel(gradient_bytes, step_s, samples)
    assert one.link_bytes_per_s(nodes) == pytest.approx(model.wanted_bytes_per_s(nodes))


def test_one_node_needs_no_link_and_neither_do_nodes_that_work_each_by_itself() -> None:
    assert trainer("x").link_bytes_per_s(1) == 0.0
    assert trainer("x", independent=True).link_bytes_per_s(4) == 0.0


def test_where_no_bandwidth_is_known_nothing_is_reserved() -> None:
    assert not UNKNOWN_LINKS.are_known
    policy = find_policy("gadget")
    assert with_links(policy, FIRST_NODES, UNKNOWN_LINKS, ()) == (policy, FIRST_NODES)
    assert with_links(find_policy("smd"), FIRST_NODES, of_gbit(1), ())[1] is FIRST_NODES


def test_two_rings_do_not_share_a_link_that_has_room_for_one() -> None:
    """Two nodes of which each has two parts, and two users' rings of two: the second one stays on one node."""
    offers = (*places("a", "b"), *places("a", "b"))
    trainers = (trainer("x", max_nodes=2), trainer("y", max_nodes=2))
    first = tuple(replace(offer, name=offer.name.replace("#+", "#+x")) for offer in offers[:2])
    second = tuple(replace(offer, name=offer.name.replace("#+", "#+y")) for offer in offers[2:])
    questions = ((first, trainers[:1]), (second, trainers[1:]))
    for gbit, second_ring in ((16.0, ["a", "b"]), (14.0, ["a"])):
        policy, placer = with_links(find_policy("gadget"), FIRST_NODES, of_gbit(gbit), questions)
        found = [
            deciding.decide(policy, Problem(0.0, *question, 3600.0), perf_counter, placer)
            for question in questions
        ]
        assert nodes_of(found[0]) == {"x": ["a", "b"]}
        assert nodes_of(found[1]) == {"y": second_ring}
    assert any("7.6 Gbit/s, which the link of a does not have left" in note for note in found[1].notes)


def test_a_ring_that_is_decided_later_keeps_its_bandwidth() -> None:
    mine, theirs = places("a", "b"), places("a", "b", holder="y")
    beside = ((theirs, (trainer("y"),)),)
    assert nodes_of(decide(mine, (trainer("x"),), of_gbit(14.0), beside)) == {"x": ["a"]}
    assert nodes_of(decide(mine, (trainer("x"),), of_gbit(16.0), beside)) == {"x": ["a", "b"]}


def test_nodes_are_taken_whose_links_have_room() -> None:
    mine, theirs = places("a", "b", "c", "d"), places("a", "b", holder="y")
    beside = ((theirs, (trainer("y"),)),)
    assert nodes_of(decide(mine, (trainer("x", max_nodes=2),), of_gbit(14.0), beside)) == {"x": ["c", "d"]}


def test_parts_of_one_node_come_before_parts_of_two() -> None:
    mine = tuple(Place(name) for name in ("a#+1", "b#+1", "b#+2"))
    found = decide(mine, (trainer("x", max_nodes=2),), of_gbit(100.0))
    assert nodes_of(found) == {"x": ["b", "b"]}
    assert found.notes == ()


def test_nobody_is_made_smaller_for_bandwidth() -> None:
    """The site has lowered the figure, or the training has become quicker: who has its nodes keeps them."""
    found = decide(places("a", "b", "c", holder="x"), (trainer("x"),), of_gbit(1.0))
    assert nodes_of(found) == {"x": ["a", "b", "c"]}
    more = (*places("a", "b", holder="x"), *places("c", "d"))
    assert nodes_of(decide(more, (trainer("x"),), of_gbit(1.0))) == {"x": ["a", "b"]}


def test_what_one_ring_may_not_have_goes_to_others() -> None:
    heavy, light = trainer("heavy"), trainer("light", bytes_per_sample=0.0)
    assert nodes_of(decide(whole(4), (heavy, light), of_gbit(100.0))) == {
        "heavy": ["n0", "n1"],
        "light": ["n2", "n3"],
    }
    found = decide(whole(4), (heavy, light), of_gbit(5.0))
    assert {id_: len(names) for id_, names in found.placement.items()} == {"heavy": 1, "light": 3}


def test_who_cannot_start_with_fewer_waits() -> None:
    found = decide(whole(4), (trainer("x", min_nodes=2),), of_gbit(5.0))
    assert found.placement == {}
    assert "gets at most 0 instead of" in found.notes[0]


def test_a_ring_stays_on_its_leaf_where_the_uplink_has_no_room() -> None:
    one = (trainer("x"),)
    assert len(decide(whole(4), one, of_gbit(100.0, 100.0, LEAVES)).placement["x"]) == 4
    found = decide(whole(4), one, of_gbit(100.0, 10.0, LEAVES))
    assert nodes_of(found) == {"x": ["n0", "n1"]}
    assert "10.8 Gbit/s, which the uplink of leaf0 does not have left" in found.notes[0]


def test_leaves_are_taken_whose_uplinks_have_room() -> None:
    """The ring of others leads over the first two leaves, each of which has a node left."""
    others = ((Place("n0", holder="y"), Place("n2", holder="y")), (trainer("y"),))
    mine = tuple(Place(f"n{number}") for number in (1, 3, 5, 7))
    found = decide(mine, (trainer("x", max_nodes=2),), of_gbit(100.0, 14.0, LEAVES), (others,))
    assert nodes_of(found) == {"x": ["n5", "n7"]}


def test_a_ring_goes_as_far_as_uplinks_have_room() -> None:
    """It needs all four nodes for its largest size; the uplinks of two leaves have room for one of three nodes."""
    others = ((Place("n0", holder="y"), Place("n2", holder="y")), (trainer("y"),))
    mine = tuple(Place(f"n{number}") for number in (1, 4, 5, 6))
    found = decide(mine, (trainer("x"),), of_gbit(100.0, 14.0, LEAVES), (others,))
    assert nodes_of(found) == {"x": ["n4", "n5", "n6"]}


def test_a_question_without_nodes_follows_one_with_nodes() -> None:
    links, one = of_gbit(100.0), (trainer("x"),)
    policy, placer = with_links(find_policy("gadget"), FIRST_NODES, links, ((whole(2), one), ((), one)))
    for nodes, sizes in ((whole(2), [2]), ((), [])):
        found = deciding.decide(policy, Problem(0.0, nodes, one, 3600.0), perf_counter, placer)
        assert list(map(len, found.placement.values())) == sizes
        assert not any("rejected" in note for note in found.notes)


def test_it_is_said_which_link_is_fullest() -> None:
    found = decide(whole(2), (trainer("x"),), of_gbit(100.0, 40.0, LEAVES))
    assert found.notes == ("Reserved are up to 7.6 of 100 Gbit/s (the link of n0).",)


def test_where_only_uplinks_are_known_only_they_are_reserved() -> None:
    found = decide(whole(4), (trainer("x"),), of_gbit(0.0, 10.0, LEAVES))
    assert nodes_of(found) == {"x": ["n0", "n1"]}


def in_parts(problem: Problem, draw: random.Random) -> Problem:
    """Its nodes are parts of fewer nodes; gradients of all sizes."""
    nodes = tuple(
        replace(
            place, name=f"n{draw.randrange(5)}#{number}" if place.holder else f"n{draw.randrange(5)}#+{number}"
        )
        for number, place in enumerate(problem.nodes)
    )
    sizes = (0.0, 1e5, 1e7, 1e9)
    trainers = tuple(replace(trainer, bytes_per_sample=draw.choice(sizes)) for trainer in problem.trainers)
    return replace(problem, nodes=nodes, trainers=trainers)


def test_no_link_has_more_new_rings_than_it_carries() -> None:
    refused = 0
    for seed in range(200):
        draw = random.Random(seed)
        problem = in_parts(mixed_problem(seed, lives=seed % 2 == 0), draw)
        topology = Topology({f"n{number}": f"leaf{number // 2}" for number in range(5)})
        links = of_gbit(draw.choice((0.0, 0.01, 1.0, 100.0)), draw.choice((0.005, 1.0, 50.0)), topology)
        questions = ((problem.nodes, problem.trainers),)
        twice = []
        for _ in range(2):
            policy, placer = with_links(find_policy("gadget"), FIRST_NODES, links, questions)
            twice.append(deciding.decide(policy, problem, perf_counter, placer))
        found = twice[0]
        assert found.solver == "gadget", found.notes
        assert verify(problem, found) == (), seed
        assert replace(found, solve_s=0.0) == replace(twice[1], solve_s=0.0)
        assert found.solve_s < 2.0
        refused += any("instead of" in note for note in found.notes)
        check_links(problem, found, links)
    assert refused > 30


def check_links(problem: Problem, found: Decision, links: Links) -> None:
    """Each link on which somebody gained a node carries all of its rings."""
    loads, gained = Counter[str](), set[str]()
    for trainer in problem.trainers:
        names = found.placement.get(trainer.id, ())
        nodes = set(map(node_of, names))
        leaves = {f"up {links.topology.leaf_of(node)}" for node in nodes}
        used = (nodes if len(nodes) > 1 else set()) | (leaves if len(leaves) > 1 else set())
        for link in used:
            loads[link] += trainer.link_bytes_per_s(len(names))  # type: ignore[assignment]
        if set(names) - set(problem.held_names.get(trainer.id, ())):
            gained |= used if trainer.link_bytes_per_s(len(names)) else set()
    for link in gained:
        most = links.uplink_bytes_per_s if link.startswith("up ") else links.link_bytes_per_s
        assert loads[link] <= most * (1 + 1e-9) or math.isinf(most), link
