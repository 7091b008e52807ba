"""Which nodes: rules that hold for every placer, and what each of them is for."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.problems import mixed_problem, random_problem
from freetrain.core.decision import Placement
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.topology import FLAT, Topology, crossings, nodes_by_leaf
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify_counts, verify_placement
from freetrain.policies import PLACERS, Explaining, find_placer, find_policy

SIZES = tuple((nodes, 10.0 * nodes) for nodes in (1, 2, 4, 8, 16))


def tree(problem: Problem, nodes_per_leaf: int = 4) -> Topology:
    names = [node.name for node in problem.nodes]
    leaves = {name: f"leaf{number // nodes_per_leaf}" for number, name in enumerate(names)}
    return Topology(leaves, dict.fromkeys(leaves.values(), "root"))


@pytest.mark.parametrize("placer", PLACERS)
def test_every_placer_places_what_was_counted_and_nobody_migrates(placer: str) -> None:
    for seed in range(200):
        problem = mixed_problem(seed, lives=seed % 2 == 0)
        counts = find_policy("greedy").decide(problem).counts
        assert verify_counts(problem, counts) == ()
        placed = find_placer(placer, tree(problem, 3)).place(problem, counts)
        assert verify_placement(problem, counts, placed) == (), seed
        assert placed == find_placer(placer, tree(problem, 3)).place(problem, counts)


@pytest.mark.parametrize("placer", PLACERS)
def test_a_placer_needs_no_topology(placer: str) -> None:
    problem = random_problem(1, 20, 200)
    counts = find_policy("greedy").decide(problem).counts
    assert verify_placement(problem, counts, find_placer(placer, FLAT).place(problem, counts)) == ()


def leaves_of_four(free: str, held: str = "") -> tuple[Problem, Topology]:
    """Nodes a1 … a4, b1 … b4, c1 … c4 on leaves a, b, c; some of them idle, some of them trainer A's."""
    names = [f"{leaf}{number}" for leaf in "abc" for number in range(1, 5)]
    there = {*free.split(), *held.split()}
    offers = tuple(Place(name, None, "A" if name in held.split() else None) for name in names if name in there)
    leaves = {name: name[0] for name in names}
    return Problem(0.0, offers, (Trainer("A", SIZES),)), Topology(leaves, dict.fromkeys("abc", "root"))


@pytest.mark.parametrize("placer", ["ring", "dltap"])
@pytest.mark.parametrize(
    ("free", "held", "nodes", "leaves"),
    [
        ("a1 b1 b2 b3 c1 c2", "", 2, {"c": 2}),
        ("a1 b1 b2 b3 c1 c2", "", 3, {"b": 3}),
        ("a1 b1 b2 b3 c1 c2", "", 4, {"b": 3, "a": 1}),
        ("a1 b1 b2 b3 c1", "c2", 2, {"c": 2}),
        ("", "a1 b1 b2 b3", 3, {"b": 3}),
    ],
)
def test_a_trainer_gets_the_tightest_leaf_with_room_and_stays_near_what_it_has(
    placer: str, free: str, held: str, nodes: int, leaves: dict[str, int]
) -> None:
    problem, topology = leaves_of_four(free, held)
    placed = find_placer(placer, topology).place(problem, np.array([[nodes]]))
    assert nodes_by_leaf(placed["A"], topology) == leaves


def test_ranks_follow_the_ring() -> None:
    problem, topology = leaves_of_four("b2 b1 b3 b4", held="a1 c1")
    placed = find_placer("ring", topology).place(problem, np.array([[6]]))
    assert placed["A"] == ("a1", "b1", "b2", "b3", "b4", "c1")
    assert crossings(placed["A"], topology) == 3


@pytest.mark.parametrize("placer", ["ring", "dltap"])
def test_a_placer_that_knows_the_switches_says_who_is_on_several_leaves(placer: str) -> None:
    problem, topology = leaves_of_four("a1 b1 b2 b3 c1 c2")
    found = find_placer(placer, topology)
    assert isinstance(found, Explaining)
    assert list(found.explain(found.place(problem, np.array([[3]])))) == []
    assert list(found.explain(found.place(problem, np.array([[4]])))) == [
        "Of 1 trainings 1 are on several leaves: A on a (1), b (3), 2 links between leaves."
    ]


def mean_crossings(placer: str, seeds: int) -> float:
    """Sixteen leaves of sixteen nodes, 15 % idle, trainers of 2 to 12 nodes: links between leaves, per trainer."""
    found = []
    for seed in range(seeds):
        draw = random.Random(seed)
        idle = sorted(draw.sample(range(256), 38))
        sizes = draw.sample([2, 4, 8, 12], 4)
        trainers = tuple(Trainer(f"T{row}", SIZES) for row in range(len(sizes)))
        problem = Problem(0.0, tuple(Place(f"n{node:03}") for node in idle), trainers)
        topology = Topology({f"n{node:03}": f"leaf{node // 16:02}" for node in range(256)})
        chosen = placed_as(placer, problem, sizes, topology, draw)
        found += [crossings(names, topology) for names in chosen.values()]
    return sum(found) / len(found)


def placed_as(
    placer: str, problem: Problem, sizes: list[int], topology: Topology, draw: random.Random
) -> Placement:
    counts = np.array(sizes)[:, None]
    if placer != "random":
        return find_placer(placer, topology).place(problem, counts)
    shuffled = list(problem.nodes)
    draw.shuffle(shuffled)
    return find_placer("first").place(replace(problem, nodes=tuple(shuffled)), counts)


def test_embedded_rings_cross_fewer_leaves_than_first_nodes_and_these_fewer_than_any() -> None:
    ring, first, anywhere = (mean_crossings(placer, seeds=20) for placer in ("ring", "first", "random"))
    assert ring <= 0.7 * first
    assert first <= 0.8 * anywhere
