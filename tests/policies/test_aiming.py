"""What stands behind an objective, heeded by every policy in its own way, or reported to have no effect."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.problems import mixed_problem, with_kinds
from freetrain.core.place import Place, Traits
from freetrain.core.problem import Problem
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.core.verify import verify
from freetrain.policies import VARIANTS, find_policy
from freetrain.policies.aiming import HEEDED, asked_of, heeded_by, unheeded
from tests.policies.deciding import decide

CURVE = ((1, 10.0), (2, 19.0), (4, 34.0), (8, 56.0))


def heeding(part: str) -> list[str]:
    """Policies that heed this part of an objective."""
    heeded = {name: heeded_by(find_policy(name)) for name in VARIANTS}
    return [name for name, parts in heeded.items() if parts is None or part in parts]


OF_THEIR_OWN = tuple(
    name for name in heeding("energy") if unheeded(find_policy(name), name, "weighted,evictions=60")
)
"""Policies that do not maximise the objective."""
DEAR, CHEAP = "speedup,energy=1e9", "speedup,energy=1e-6"


def offers(count: int, watts: float = 0.0) -> tuple[Place, ...]:
    return tuple(Place(f"n{number}", traits=Traits(watts=watts)) for number in range(count))


def twins(needed_nodes: int) -> tuple[Trainer, Trainer]:
    """Two of which one has a deadline for which it needs so many nodes from now on, free of all costs."""
    calm = Trainer("calm", CURVE, scale_up_s=0, scale_down_s=0, target_samples=1e6)
    deadline_s = 2 * 1e6 / calm.rate(needed_nodes)  # half of the time is spare
    return calm, replace(calm, id="hurried", deadline_s=deadline_s)


def sizes_of(policy: str, problem: Problem) -> dict[str, int]:
    return {trainer: len(names) for trainer, names in decide(find_policy(policy), problem).placement.items()}


def with_aims(problem: Problem, seed: int, objective: str) -> Problem:
    """The same with deadlines, watts and progress drawn from a seed, and nothing lost by changes."""
    draw = random.Random(seed)
    trainers = tuple(
        replace(
            trainer,
            target_samples=(target := draw.uniform(1e3, 1e6)),
            deadline_s=problem.now_s + target / trainer.samples_per_s.max() * draw.uniform(0.5, 5.0),
        )
        if draw.random() < 0.6
        else trainer
        for trainer in problem.trainers
    )
    nodes = tuple(node.having(watts=draw.choice((0.0, 300.0, 900.0))) for node in problem.nodes)
    return replace(problem, trainers=trainers, nodes=nodes, objective=objective)


@pytest.mark.parametrize("policy", VARIANTS)
def test_every_policy_keeps_the_rules_whatever_is_asked_of_it(policy: str) -> None:
    for seed in range(120):
        problem = mixed_problem(seed, lives=seed % 2 == 0)
        if seed % 3 == 0 and problem.nodes:
            problem = with_kinds(problem, seed, 2)
        problem = with_aims(problem, seed, "weighted,deadlines=3,energy=3600,evictions=20")
        decision = decide(find_policy(policy), problem)
        assert verify(problem, decision) == (), seed
        again = decide(find_policy(policy), problem)
        assert again.placement == decision.placement, seed


@pytest.mark.parametrize("policy", heeding("deadlines"))
def test_who_has_a_deadline_gets_the_nodes_for_it(policy: str) -> None:
    problem = Problem(0.0, offers(8), twins(6), 3600.0, "speedup,deadlines=9")
    by_smd = {
        "smd": {"hurried": 8},
        "smd,sizes=menu": {"calm": 3, "hurried": 5},
    }  # to be complete sooner is worth little
    assert sizes_of(policy, problem) == by_smd.get(policy, {"calm": 2, "hurried": 6})


@pytest.mark.parametrize("policy", VARIANTS)
def test_without_a_factor_a_deadline_is_nothing_to_a_policy(policy: str) -> None:
    calm, hurried = twins(6)
    problem = Problem(0.0, offers(8), (calm, hurried), 3600.0)
    other = replace(problem, trainers=(calm, replace(hurried, deadline_s=None)))
    assert sizes_of(policy, problem) == sizes_of(policy, other)


@pytest.mark.parametrize("policy", [name for name in heeding("deadlines") if name != "greedy"])
def test_a_deadline_never_costs_its_trainer_a_node(policy: str) -> None:
    """Greedy is close to the optimum and no more, so that with it now and then it may."""
    for seed in range(150):
        problem = mixed_problem(seed)
        trainers = tuple(
            replace(trainer, scale_up_s=0.0, scale_down_s=0.0, start_s=0.0, boot_s=0.0, moldable=False)
            for trainer in problem.trainers
        )
        trainers = (replace(trainers[0], target_samples=1e6), *trainers[1:])
        nodes = tuple(replace(node, holder=None) for node in problem.nodes)
        calm = replace(problem, trainers=trainers, nodes=nodes, objective="speedup,deadlines=5")
        in_time_s = 2 * 1e6 / max(trainers[0].samples_per_s.max(), 1e-9)
        soon = replace(trainers[0], deadline_s=problem.now_s + in_time_s * random.Random(seed).uniform(0.6, 3.0))
        hurried = replace(calm, trainers=(soon, *trainers[1:]))
        before, after = (sizes_of(policy, case).get(soon.id, 0) for case in (calm, hurried))
        assert after >= before, seed


@pytest.mark.parametrize("policy", heeding("energy"))
def test_where_electricity_is_too_dear_nothing_is_lent(policy: str) -> None:
    nodes = tuple(replace(node, holder="calm") for node in offers(2, 500.0)) + offers(8, 500.0)[2:]
    problem = Problem(0.0, nodes, twins(6), 3600.0)
    assert sizes_of(policy, replace(problem, objective=DEAR)) == {}
    assert sizes_of(policy, replace(problem, objective=CHEAP)) == sizes_of(policy, problem)


@pytest.mark.parametrize("policy", heeding("energy"))
def test_no_node_is_lent_that_adds_less_than_its_electricity(policy: str) -> None:
    """Nodes of 1,000 W must add 0.7 a second each, which those up to the fourth do."""
    problem = Problem(0.0, offers(16, 1000.0), twins(6)[:1], 3600.0, "speedup,energy=2520")
    assert sizes_of(policy, problem) == {"calm": 4}


@pytest.mark.parametrize("policy", OF_THEIR_OWN)
def test_a_deadline_pays_for_more_electricity(policy: str) -> None:
    problem = Problem(0.0, offers(16, 1000.0), twins(8), 3600.0, "speedup,energy=2520,deadlines=3")
    assert sizes_of(policy, problem) == {"calm": 4, "hurried": 8}


@pytest.mark.parametrize("policy", OF_THEIR_OWN)
def test_sizes_are_never_such_as_are_worth_less_than_their_electricity(policy: str) -> None:
    for seed in range(150):
        problem = with_aims(mixed_problem(seed, lives=True), seed, "weighted,deadlines=1,energy=3000")
        problem = replace(problem, trainers=tuple(replace(trainer, boot_s=0.0) for trainer in problem.trainers))
        asked, found = asked_of(problem), sizes_of(policy, problem)
        sizes = np.array([found.get(trainer.id, 0) for trainer in problem.trainers], dtype=np.int64)
        assert ((sizes == 0) | ((sizes >= asked.min_nodes) & (sizes <= asked.max_nodes))).all(), seed


def test_electricity_is_that_of_the_nodes_that_a_trainer_may_have() -> None:
    thrifty = Trainer("thrifty", CURVE, choices=(KindChoice(("small",)),))
    other = Trainer("other", CURVE, choices=(KindChoice(("large",), 2.0),))
    nodes = (*(Place(f"s{number}", traits=Traits("small", 100.0)) for number in range(8)),)
    nodes += (*(Place(f"l{number}", traits=Traits("large", 2000.0)) for number in range(8)),)
    asked = asked_of(Problem(0.0, nodes, (thrifty, other), 3600.0, "speedup,energy=2520"))
    assert asked.max_nodes.tolist() == [8, 4]


def test_sizes_below_which_electricity_does_not_pay_are_none() -> None:
    """Nothing much is done on fewer than four nodes, so these are not worth their electricity."""
    late = Trainer("late", ((1, 1.0), (2, 1.2), (4, 8.0)))
    problem = Problem(0.0, offers(3, 1000.0), (late,), 3600.0, "speedup,energy=6120")
    assert asked_of(problem).min_nodes.tolist() == [4]
    assert all(sizes_of(name, problem) == {} for name in heeding("energy"))
    four = replace(problem, nodes=offers(4, 1000.0))
    assert all(sizes_of(name, four) == {"late": 4} for name in heeding("energy"))


def test_what_has_no_effect_is_said() -> None:
    assert unheeded(find_policy("freetrain"), "freetrain", "throughput,evictions=60,deadlines=3") == ""
    sentence = unheeded(find_policy("smd"), "smd", "throughput,evictions=60,deadlines=3")
    assert sentence == (
        "With the policy smd, throughput and evictions of the objective 'throughput,evictions=60,deadlines=3' "
        "have no effect: it decides by a rule of its own; it heeds deadlines and energy."
    )
    assert unheeded(find_policy("smd"), "smd", "weighted,deadlines=3,energy=3600") == ""


@pytest.mark.parametrize("policy", VARIANTS)
def test_what_is_not_said_to_be_heeded_changes_nothing(policy: str) -> None:
    """Evictions avoided: either the policy says so, or it does not know when nodes leave."""
    heeds = getattr(find_policy(policy), "heeds", None)
    assert heeds is None or heeds <= HEEDED
    changed = False
    for seed in range(60):
        problem = mixed_problem(seed, lives=True)
        other = replace(problem, objective=f"{problem.objective},evictions=600")
        changed |= sizes_of(policy, problem) != sizes_of(policy, other)
    assert changed == (heeds is None)
