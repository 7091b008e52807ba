"""The policies against the oracles: the optimum is reached, never passed, and always found the same way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.problems import (
    NOW_S,
    mixed_problem,
    random_problem,
    with_boots,
    with_deadlines,
    with_kinds,
    with_watts,
)
from freetrain.core.decision import Decision, Status
from freetrain.core.place import Place, Traits
from freetrain.core.problem import Problem
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.core.verify import verify
from freetrain.policies import find_policy
from freetrain.replay.trainers import CURVES
from tests.oracle.enumeration import best_by_enumeration
from tests.oracle.published import solve_published
from tests.policies.deciding import decide
from tests.seeds import seeds

SOLVERS = ("auto", "highs")
BASELINES = ("equal-share", "greedy")


def about(value: float) -> object:
    return pytest.approx(value, rel=1e-6, abs=1e-6)


def solve(problem: Problem, solver: str) -> Decision:
    return decide(find_policy("freetrain", solver=solver, time_limit_s=30.0), problem)


def assert_optimal(problem: Problem, decision: Decision, optimum: float, which: object) -> None:
    assert decision.status == Status.OPTIMAL, which
    assert verify(problem, decision) == (), which
    assert decision.objective == about(optimum), which


def beside_fillers(problem: Problem) -> Problem:
    """The same problem; the nodes of every other trainer work each by itself."""
    mixed = (replace(trainer, independent=row % 2 == 0) for row, trainer in enumerate(problem.trainers))
    return replace(problem, trainers=tuple(mixed))


def beside_moldable_tasks(problem: Problem, seed: int) -> Problem:
    """The same problem; the size of every other trainer stays, and some of the rest are fillers."""
    trainers = (
        replace(trainer, moldable=row % 2 == seed % 2, independent=row % 2 != seed % 2 and seed % 3 == 0)
        for row, trainer in enumerate(problem.trainers)
    )
    return replace(problem, trainers=tuple(trainers))


def with_moldable_tasks(seed: int, *, lives: bool) -> Problem:
    """Such a problem, with boots, kinds of nodes and evictions to be avoided here and there."""
    problem = mixed_problem(seed, lives=lives)
    problem = with_boots(problem, seed) if seed % 4 == 0 else problem
    problem = with_kinds(problem, seed, kinds=2) if seed % 5 == 0 else problem
    problem = beside_moldable_tasks(problem, seed)
    return replace(problem, objective=f"{problem.objective},evictions={seed}") if seed % 7 == 0 else problem


@pytest.mark.parametrize("solver", SOLVERS)
def test_nodes_that_leave_before_a_task_has_booted_do_not_hide_what_it_loses_on_others(solver: str) -> None:
    """In 1148 it was started on nodes where it would lose more than it does, as if it ended before that."""
    problem = with_moldable_tasks(1148, lives=True)
    assert_optimal(problem, solve(problem, solver), best_by_enumeration(problem), "seed 1148")


def with_changes(seed: int) -> Problem:
    """Sizes that change often, more often with each seed."""
    return beside_moldable_tasks(replace(mixed_problem(seed, lives=True), changes=1.0 + seed), seed)


def where_nodes_boot(seed: int, *, lives: bool) -> Problem:
    """New nodes must boot, those of fillers here and there, too."""
    problem = with_boots(mixed_problem(seed, lives=lives), seed)
    return beside_fillers(problem) if seed % 4 == 0 else problem


def with_evictions(seed: int) -> Problem:
    """Evictions are to be avoided, the more the higher the seed."""
    problem = mixed_problem(seed, lives=True)
    problem = beside_fillers(problem) if seed % 4 == 0 else problem
    return replace(problem, objective=f"{problem.objective},evictions={seed * 7.5}")


def with_much_besides(seed: int) -> Problem:
    """Deadlines, electricity, or both, on nodes of some kinds here and there."""
    problem = mixed_problem(seed, lives=seed % 4 > 0)
    problem = with_kinds(problem, seed, kinds=1 + seed % 3) if seed % 2 else problem
    problem = with_boots(problem, seed) if seed % 3 == 0 else problem
    problem = with_watts(problem, seed) if seed % 5 != 1 else problem
    return with_deadlines(problem, seed) if seed % 5 != 2 else problem


def of_kinds(seed: int) -> Problem:
    """Nodes of up to four kinds; some new nodes must boot, some trainers' nodes work each by itself."""
    problem = with_kinds(mixed_problem(seed, lives=seed % 8 > 0), seed, kinds=1 + seed % 4)
    problem = with_boots(problem, seed) if seed % 3 == 0 else problem
    return beside_fillers(problem) if seed % 5 == 0 else problem


def with_everything(seed: int) -> Problem:
    """Tasks whose size stays beside all that decisions weigh."""
    problem = with_much_besides(seed)
    problem = with_boots(problem, seed) if seed % 2 == 0 else problem
    problem = beside_moldable_tasks(problem, seed)
    return replace(problem, objective=f"{problem.objective},evictions={seed}") if seed % 3 == 0 else problem


FAMILIES: Mapping[str, tuple[int, Callable[[int], Problem]]] = {
    "alike": (100, partial(mixed_problem, lives=False)),
    "lives": (100, partial(mixed_problem, lives=True)),
    "changes": (15, with_changes),
    "fillers": (15, lambda seed: beside_fillers(mixed_problem(seed, lives=True))),
    "moldable-alike": (40, partial(with_moldable_tasks, lives=False)),
    "moldable-lives": (40, partial(with_moldable_tasks, lives=True)),
    "boots-alike": (20, partial(where_nodes_boot, lives=False)),
    "boots-lives": (20, partial(where_nodes_boot, lives=True)),
    "evictions": (20, with_evictions),
    "deadlines-and-electricity": (40, with_much_besides),
    "kinds": (25, of_kinds),
    "everything": (30, with_everything),
}
"""Problems by what counts in them: how many are solved in every run, and what makes them of seeds."""


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["few", "more"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_freetrain_is_the_best_of_all_allocations(solver: str, family: str, more: bool) -> None:
    few, make = FAMILIES[family]
    for seed in range(few, 2000) if more else range(few):
        problem = make(seed)
        assert_optimal(problem, solve(problem, solver), best_by_enumeration(problem), f"seed {seed}")


@pytest.mark.parametrize("policy", ["freetrain", *BASELINES, "gadget", "gadget,utility=log", "smd", "smd-menu"])
def test_no_policy_changes_a_size_that_stays(policy: str) -> None:
    for seed in range(100):
        problem = beside_moldable_tasks(mixed_problem(seed, lives=True), seed)
        decision = decide(find_policy(policy), problem)
        assert verify(problem, decision) == (), f"seed {seed}"
        assert decision.status is not Status.FALLBACK, decision.notes
        for trainer in problem.trainers:
            now, then = (
                set(placement.get(trainer.id, ())) for placement in (problem.held_names, decision.placement)
            )
            assert not (trainer.moldable and now) or then in (now, set()), f"seed {seed}"


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_baseline_is_usable_where_deadlines_and_electricity_count(baseline: str) -> None:
    for seed in range(60):
        problem = with_much_besides(seed)
        decision = decide(find_policy(baseline), problem)
        optimum = best_by_enumeration(problem)
        assert verify(problem, decision) == (), f"seed {seed}"
        assert decision.objective <= optimum + 1e-6 * max(1.0, abs(optimum)), f"seed {seed}"


def test_greedy_lends_no_node_that_is_worth_less_than_its_electricity() -> None:
    nodes = tuple(Place(f"n{number}", traits=Traits(watts=1000.0)) for number in range(4))
    trainer = Trainer("a", ((1, 10.0), (2, 18.0), (4, 30.0)))
    for energy, lent in ((2100.0, 4), (2200.0, 2), (3500.0, 1), (3700.0, 0)):
        problem = Problem(NOW_S, nodes, (trainer,), 600.0, f"speedup,energy={energy}")
        placement = decide(find_policy("greedy"), problem).placement
        assert len(placement.get("a", ())) == lent, energy


@pytest.mark.parametrize("policy", ["freetrain", *BASELINES, "gadget", "gadget,utility=log", "smd", "smd-menu"])
def test_every_policy_keeps_to_the_kinds_of_nodes_that_each_trainer_may_have(policy: str) -> None:
    for seed in range(150):
        problem = of_kinds(seed)
        decision = decide(find_policy(policy), problem)
        assert verify(problem, decision) == (), f"seed {seed}"
        kind_of = {node.name: node.traits.kind for node in problem.nodes}
        for trainer in problem.trainers:
            now, names = (
                set(placement.get(trainer.id, ())) for placement in (problem.held_names, decision.placement)
            )
            if not names <= now:
                kinds = {kind_of[name] for name in names}
                choices = [{kind_of[name]} for name in names] if trainer.choices is None else trainer.choices
                together = [choice if isinstance(choice, set) else set(choice.kinds) for choice in choices]
                assert any(kinds <= group for group in together), f"seed {seed}"


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_baseline_leaves_no_node_idle_that_somebody_could_use(baseline: str) -> None:
    """Two trainers with a kind of node each: what one cannot use is not kept for it."""
    curve = tuple((nodes, 10.0 * nodes) for nodes in range(1, 9))
    trainers = tuple(Trainer(name, curve, choices=(KindChoice((name,)),)) for name in ("a", "b"))
    nodes = tuple(Place(f"n{number}", traits=Traits("b" if number < 2 else "a")) for number in range(8))
    decision = decide(find_policy(baseline), Problem(NOW_S, nodes, trainers))
    assert {trainer: len(names) for trainer, names in decision.placement.items()} == {"a": 6, "b": 2}


def test_who_can_use_one_kind_of_node_only_shares_it_equally() -> None:
    curve = tuple((nodes, 10.0 * nodes) for nodes in range(1, 9))
    trainers = tuple(
        Trainer(f"t{number}", curve, choices=(KindChoice(("a" if number else "b",)),)) for number in range(3)
    )
    nodes = tuple(Place(f"n{number}", traits=Traits("a" if number < 4 else "b")) for number in range(10))
    decision = decide(find_policy("equal-share"), Problem(NOW_S, nodes, trainers))
    assert {trainer: len(names) for trainer, names in decision.placement.items()} == {"t0": 6, "t1": 2, "t2": 2}


@pytest.mark.parametrize("policy", ["freetrain", *BASELINES])
def test_nobody_gets_a_new_node_that_leaves_before_it_has_booted(policy: str) -> None:
    for seed in range(200):
        problem = with_boots(mixed_problem(seed, lives=True), seed)
        decision = decide(find_policy(policy), problem)
        assert verify(problem, decision) == (), f"seed {seed}"
        assert decision.objective <= best_by_enumeration(problem) + 1e-6 * problem.horizon_s * 1e3, f"seed {seed}"
        lives_s = {node.name: (node.until_s or math.inf) - problem.now_s for node in problem.nodes}
        for trainer in problem.trainers:
            new = set(decision.placement.get(trainer.id, ())) - set(problem.held_names.get(trainer.id, ()))
            assert all(lives_s[name] > trainer.boot_s for name in new), f"seed {seed}"


@pytest.mark.parametrize("objective", ["throughput", "speedup"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("trainers", "nodes"), [(1, 5), (3, 8), (5, 32), (10, 24)])
def test_freetrain_is_as_good_as_the_published_model(
    trainers: int, nodes: int, solver: str, objective: str
) -> None:
    problem = random_problem(nodes, trainers, nodes, objective=objective)
    published = solve_published(problem)
    assert published.proven
    assert_optimal(problem, solve(problem, solver), published.objective, "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_freetrain_is_as_good_as_the_published_model_on_a_small_machine(seed: int) -> None:
    problem = random_problem(seed, 10, 128)
    published = solve_published(problem)
    assert published.proven
    for solver in SOLVERS:
        assert_optimal(problem, solve(problem, solver), published.objective, f"{solver}, seed {seed}")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("trainers", "nodes"), [(10, 64), (40, 256)])
def test_both_solvers_agree_where_no_oracle_reaches(trainers: int, nodes: int, seed: int) -> None:
    problem = random_problem(seed, trainers, nodes)
    quick = solve(problem, "auto")
    assert_optimal(problem, solve(problem, "highs"), quick.objective, f"seed {seed}")
    assert verify(problem, quick) == ()


@pytest.mark.parametrize("lives", [False, True], ids=["alike", "lives"])
@pytest.mark.parametrize("baseline", BASELINES)
def test_a_baseline_is_usable_and_never_beats_the_optimum(baseline: str, lives: bool) -> None:
    for seed in range(300):
        problem = mixed_problem(seed, lives=lives)
        decision = decide(find_policy(baseline), problem)
        optimum = best_by_enumeration(problem)
        assert verify(problem, decision) == (), f"seed {seed}"
        assert decision.objective <= optimum + 1e-6 * max(1.0, abs(optimum)), f"seed {seed}"


@pytest.mark.parametrize("policy", ["freetrain", *BASELINES])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_problem_gets_the_same_decision(policy: str, solver: str) -> None:
    for problem in (random_problem(1, 6, 24), *(mixed_problem(seed, lives=True) for seed in range(8))):
        first, second = (decide(find_policy(policy, solver=solver), problem) for _ in range(2))
        assert first == second


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_trainer_takes_all_five_idle_nodes(solver: str) -> None:
    """The published rows, with their constant of N + 1, let it have only three."""
    shufflenet = Trainer("shufflenet", CURVES["ShuffleNet"], max_nodes=64)
    problem = Problem(NOW_S, tuple(Place(f"n{number}") for number in range(5)), (shufflenet,), 120.0, "throughput")
    decision = solve(problem, solver)
    assert len(decision.placement["shufflenet"]) == 5
    assert_optimal(problem, decision, 1_510_296.0, "")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_trainer_too_large_for_the_nodes_stops_nobody_else(solver: str) -> None:
    """The published rows have no solution at all here."""
    curve = CURVES["ShuffleNet"]
    small, large = Trainer("small", curve), Trainer("large", curve, min_nodes=8)
    problem = Problem(
        NOW_S, tuple(Place(f"n{number}") for number in range(5)), (large, small), 120.0, "throughput"
    )
    decision = solve(problem, solver)
    assert set(decision.placement) == {"small"}
    assert_optimal(problem, decision, 1_510_296.0, "")
