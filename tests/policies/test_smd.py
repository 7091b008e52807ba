"""SMD on idle nodes: all or nothing, and the menu that softens it; how many servers, and where they run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.problems import mixed_problem
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.topology import Topology
from freetrain.core.trainer import Servers, Trainer, past_of_samples
from freetrain.core.verify import verify
from freetrain.loop import deciding
from freetrain.policies import FIRST_NODES, PLACERS, VARIANTS, find_placer, find_policy
from freetrain.policies.smd import (
    MOVES_BEFORE_S,
    Point,
    ServerModel,
    best_step_s,
    count_servers,
    fastest,
    fit_servers,
    place_servers,
)
from tests.oracle.systems import Layer, layered_step_s
from tests.policies.deciding import decide

CURVE = ((1, 10.0), (2, 18.0), (4, 30.0))


def sizes(
    policy: str, trainers: tuple[Trainer, ...], nodes: int, done: dict[str, float] | None = None
) -> dict[str, int]:
    offers = tuple(Place(f"n{number}") for number in range(nodes))
    problem = Problem(
        0.0,
        offers,
        trainers,
        3600.0,
        past=past_of_samples(done or {}),
    )
    return {trainer: len(names) for trainer, names in decide(find_policy(policy), problem).placement.items()}


def test_each_gets_its_fastest_size_or_nothing() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=5e6) for name in "abc")
    assert sorted(sizes("smd", trainers, 9).values()) == [4, 4]


def test_with_the_menu_the_nodes_that_are_left_are_used() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=5e6) for name in "abc")
    assert sum(sizes("smd,sizes=menu", trainers, 9).values()) == 9


def test_where_fewer_nodes_are_there_the_fastest_is_the_fastest_on_these() -> None:
    assert sizes("smd", (Trainer("a", CURVE, target_samples=5e6),), 3) == {"a": 3}


def test_who_is_complete_soonest_goes_first() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=5e6) for name in "ab")
    assert sizes("smd", trainers, 4, {"b": 4e6}) == {"b": 4}
    assert sizes("smd", trainers, 4, {"a": 4e6}) == {"a": 4}


def test_a_size_at_which_more_nodes_are_slower_is_not_taken() -> None:
    assert sizes("smd", (Trainer("a", ((1, 10.0), (2, 18.0), (4, 12.0)), target_samples=5e6),), 4) == {"a": 2}


def test_more_servers_than_workers_may_be_best() -> None:
    model = ServerModel((0.005, 0.02, 0.1, 0.001, 0.001), 256)
    assert fastest(model, 7, 64) == (7, 26)
    best = min(itertools.product(range(1, 8), range(1, 65)), key=lambda pair: float(model.step_s(*pair)))
    assert best == (7, 26)


SIZES = tuple(itertools.product((1, 2, 4, 8, 12, 16), (1, 2, 4, 8)))


def test_the_terms_add_up() -> None:
    model = ServerModel((0.005, 0.02, 0.1, 0.001, 0.001), 256)
    assert float(model.step_s(7, 10)) == pytest.approx(0.289857, abs=5e-7)
    assert float(model.step_s(8, 8)) == pytest.approx(0.2960)
    assert float(model.step_s(1, 1)) == pytest.approx(1.402)


@pytest.mark.parametrize("coefficients", [(0.005, 0.02, 0.1, 0.001, 0.001), (0.01, 0.0, 0.05, 0.0, 0.002)])
def test_a_fit_finds_the_coefficients_that_the_points_come_from(
    coefficients: tuple[float, float, float, float, float],
) -> None:
    model = ServerModel(coefficients, 128)
    points = [Point(w, p, float(model.step_s(w, p))) for w, p in SIZES]
    assert fit_servers(points, 128).coefficients == pytest.approx(coefficients, abs=1e-9)


def test_too_few_sizes_are_not_fitted() -> None:
    four = [Point(workers, 1, 1.0) for workers in (1, 2, 4, 8)]
    with pytest.raises(ValueError, match="5 different sizes"):
        fit_servers(four * 3, 128)


def test_the_model_comes_close_to_steps_whose_layers_are_sent_while_others_compute() -> None:
    errors = []
    for seed in range(10):
        draw = random.Random(seed)
        layers = [
            Layer(draw.uniform(2e-4, 2e-3), draw.uniform(2e-3, 1e-2), draw.choice((1e6, 4e6, 2e7, 8e7)))
            for _ in range(draw.randint(4, 12))
        ]
        points = []
        for w, p in SIZES:
            samples = 128 / w
            send_s = lambda layer, w=w, p=p: layer.gradient_bytes * max(1.0, w / p) / 1.25e9 + 5e-5  # noqa: E731
            step_s = layered_step_s(layers, samples, send_s, 2e-10 * w / p)
            computes_s = sum(layer.forward_s * samples + layer.backward_s for layer in layers)
            sends_s = sum(map(send_s, layers))
            updates_s = sum(2e-10 * w / p * layer.gradient_bytes for layer in layers)
            assert max(computes_s, sends_s) - 1e-9 <= step_s <= computes_s + 2 * sends_s + updates_s + 1e-9
            points.append(Point(w, p, step_s))
        model = fit_servers(points, 128)
        errors += [abs(float(model.step_s(point.workers, point.servers)) / point.step_s - 1) for point in points]
    assert sum(errors) / len(errors) < 0.08


CURVE_OF_SERVED = ((1, 10.0), (8, 60.0))
STEP_S = (1.0, 0.0, 0.02, 0.02, 0.04)
"""With n nodes the sum under way costs 0.02 n/p, and p servers 0.04 p: best is the root of n/2."""


@pytest.mark.parametrize(("nodes", "servers"), [(1, 0), (2, 1), (4, 1), (8, 2), (16, 3)])
def test_as_many_servers_as_make_the_shortest_step(nodes: int, servers: int) -> None:
    assert count_servers(Servers(16, STEP_S), nodes) == servers


def test_no_more_than_it_may_have_and_one_on_a_node_at_most() -> None:
    greedy = (1.0, 0.0, 1.0, 0.0, 0.0)
    assert count_servers(Servers(3, greedy), 8) == 3
    assert count_servers(Servers(16, greedy), 5) == 5


def test_where_nobody_has_measured_a_step_one_server_is_enough() -> None:
    assert count_servers(Servers(4), 8) == 1
    assert best_step_s(Servers(4), 8) is None


def test_a_step_on_one_node_sends_nothing() -> None:
    assert best_step_s(Servers(16, STEP_S), 1) == pytest.approx(1.02)
    assert best_step_s(Servers(16, STEP_S), 8) == pytest.approx(1 / 8 + 0.02 * 8 / 2 + 0.02 * 8 + 0.04 * 2)


def serving(
    lives_s: dict[str, float | None], now: Sequence[str] = (), placer: str = "first", most: int = 1
) -> tuple[str, ...]:
    """Where a trainer of all these nodes has its servers; leaves are the first letters of the nodes' names."""
    trainer = Trainer("A", CURVE_OF_SERVED, servers=Servers(most, (1.0, 0.0, 1.0, 0.0, 0.0)))
    nodes = tuple(Place(name, life_s, "A") for name, life_s in lives_s.items())
    problem = Problem(0.0, nodes, (trainer,), 3600.0, serving={"A": tuple(now)} if now else {})
    topology = Topology({name: name[0] for name in lives_s})
    return dict(place_servers(problem, {"A": tuple(lives_s)}, find_placer(placer, topology))).get("A", ())


def test_a_server_runs_on_the_node_that_is_expected_to_stay_longest() -> None:
    assert serving({"a1": 900.0, "a2": 1800.0, "a3": 1200.0}) == ("a2",)
    assert serving({"a1": 900.0, "a2": None, "a3": 1200.0}) == ("a2",)
    assert serving({"a1": 900.0, "a2": 1800.0, "a3": 1200.0}, most=2) == ("a2", "a3")


def test_it_stays_where_it_is_until_the_end_of_its_node_is_near() -> None:
    assert serving({"a1": 900.0, "a2": 1800.0}, now=["a1"]) == ("a1",)
    assert serving({"a1": MOVES_BEFORE_S - 1, "a2": 1800.0}, now=["a1"]) == ("a2",)
    assert serving({"a1": 200.0, "a2": 250.0}, now=["a1"]) == ("a1",), "all end soon"


def test_one_whose_node_is_gone_is_elsewhere() -> None:
    assert serving({"a1": 900.0, "a2": 1800.0}, now=["b7"]) == ("a2",)


def test_of_nodes_that_stay_equally_long_dltap_takes_one_of_the_leaf_with_most_workers() -> None:
    alike = dict.fromkeys(("a1", "b1", "b2", "b3"), None)
    assert serving(alike, placer="dltap") == ("b1",)
    assert serving(alike, placer="first") == ("a1",)
    assert serving({**alike, "b1": 900.0, "b2": 900.0, "b3": 900.0}, placer="dltap") == ("a1",), (
        "life counts first"
    )


def test_a_single_node_has_no_server() -> None:
    assert serving({"a1": None}) == ()


def with_servers(problem: Problem, seed: int) -> Problem:
    """Some of its trainers use servers, and have some."""
    draw = random.Random(seed)
    trainers = []
    for trainer in problem.trainers:
        step_s = tuple(draw.choice([0.0, draw.uniform(0, 2)]) for _ in range(5))
        servers = Servers(draw.randint(1, 16), step_s if draw.random() < 0.7 else None)  # type: ignore[arg-type]
        trainers.append(replace(trainer, servers=servers if draw.random() < 0.7 else None))
    held = problem.held_names.items()
    return replace(problem, trainers=tuple(trainers), serving={id_: names[:1] for id_, names in held})


@pytest.mark.parametrize("policy", VARIANTS)
def test_whatever_there_is_servers_are_on_own_nodes_and_as_many_as_are_best(policy: str) -> None:
    placed = 0
    for seed in range(60):
        problem = with_servers(mixed_problem(seed, lives=seed % 2 == 0), seed)
        leaves = {node.name: f"leaf{number // 3}" for number, node in enumerate(problem.nodes)}
        placer = find_placer(PLACERS[seed % len(PLACERS)], Topology(leaves))
        decision = deciding.decide(find_policy(policy), problem, lambda: 0.0, placer)
        assert verify(problem, decision) == (), seed
        assert not any("rated no servers" in note for note in decision.notes)
        assert decision == deciding.decide(find_policy(policy), problem, lambda: 0.0, placer), seed
        for trainer in problem.trainers:
            nodes, on = decision.placement.get(trainer.id, ()), decision.serving.get(trainer.id, ())
            placed += len(on)
            assert set(on) <= set(nodes)
            assert len(on) == (tried_out(trainer.servers, len(nodes)) if trainer.servers else 0)
    assert placed > 20


def tried_out(servers: Servers, nodes: int) -> int:
    """The best number of servers, by another way to the same sum."""
    if nodes < 2 or servers.step_s is None:
        return min(nodes // 2, 1)
    _, _, c, _, e = servers.step_s
    costs = {p: c * nodes / p + e * p for p in range(1, min(servers.most, nodes) + 1)}
    return min(p for p, cost in costs.items() if cost <= min(costs.values()) + 1e-12)


def test_smd_takes_nodes_and_servers_together_of_the_shortest_step() -> None:
    """A curve that nobody has measured grows for ever; the measured step is shortest on six nodes."""
    offers = tuple(Place(f"n{number}") for number in range(1, 9))
    trainer = Trainer("A", CURVE_OF_SERVED, servers=Servers(4, (1.0, 0.0, 0.02, 0.02, 0.04)))
    problem = Problem(0.0, offers, (trainer,), 3600.0)
    sizes = {n: best_step_s(trainer.servers, n) for n in range(1, 9)}  # type: ignore[arg-type]
    fastest = min(sizes, key=lambda n: sizes[n])  # type: ignore[arg-type, return-value]
    decision = deciding.decide(find_policy("smd"), problem, lambda: 0.0)
    assert fastest not in (1, 8)
    assert len(decision.placement["A"]) == fastest
    assert decision.serving == {"A": ("n1", "n2")}
    assert "A has servers on n1, n2." in decision.notes
    without = replace(problem, trainers=(replace(trainer, servers=None),))
    assert len(deciding.decide(find_policy("smd"), without, lambda: 0.0).placement["A"]) == 8


class Failing:
    """A placer that cannot rate."""

    place = FIRST_NODES.place

    def rate_for_server(self, node: str, nodes: Sequence[str]) -> float:
        raise LookupError(node)


def test_a_placer_that_cannot_rate_costs_nobody_its_servers() -> None:
    nodes = (Place("n1", None, "A"), Place("n2", None, "A"))
    problem = Problem(0.0, nodes, (Trainer("A", ((2, 10.0),), min_nodes=2, servers=Servers()),))
    decision = deciding.decide(find_policy("freetrain"), problem, lambda: 0.0, Failing())
    assert decision.serving == {"A": ("n1",)}
    assert any("Failing rated no servers: LookupError" in note for note in decision.notes)
