"""Deadlines and electricity in the judge: what users claim moves nothing between users."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.power import PowerDraw, with_watts
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Facts, Request
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.rules import Rules, SharingRules
from freetrain.lending.training_verdicts import TrainingContext, judge_trainings
from freetrain.loop.deciding import decide
from freetrain.policies import find_policy
from tests.lending.test_judge import NAMES, NOW_S, RULES, facts, of_features

CURVE = ((1, 1.0), (2, 1.8), (4, 3.0))
AIM = replace(RULES, objective="speedup,deadlines=3", horizon_s=600.0)
ENERGY = replace(AIM, objective="weighted,energy=2100", draw=PowerDraw(1000.0, {"a100": 2000.0}))
"""A node of 1 kW must add 0.58 of what a trainer does on one node, one with an a100 1.17."""


def request(trainer: str, owner: str, due_in_s: float | None = None, *, weight: float = 1.0) -> Request:
    deadline_s = None if due_in_s is None else NOW_S + due_in_s
    return Request(
        Trainer(trainer, CURVE, target_samples=1000.0, deadline_s=deadline_s, weight=weight, scale_up_s=0.0), owner
    )


def decided(judgement: Judgement, rules: Rules) -> dict[str, int]:
    """Trainer → how many nodes it is given."""
    sizes: dict[str, int] = {}
    for nodes, trainers in judgement.questions:
        problem = Problem(judgement.now_s, nodes, trainers, judgement.horizon_s, rules.objective)
        placement = decide(find_policy("freetrain"), problem, time.perf_counter).placement
        sizes |= {trainer: len(names) for trainer, names in placement.items()}
    return sizes


def test_a_deadline_gains_against_the_other_trainers_of_its_owner() -> None:
    calm = judge(facts(request("7", "news"), request("8", "news")), Memory(), AIM)
    hurried = judge(facts(request("7", "news", 370.0), request("8", "news")), Memory(), AIM)
    assert decided(calm, AIM) == {"7": 2, "8": 2}
    assert decided(hurried, AIM) == {"7": 4}


def test_a_deadline_that_cannot_be_met_takes_nothing_even_from_the_same_owner() -> None:
    hopeless = judge(facts(request("7", "news", 300.0), request("8", "news")), Memory(), AIM)
    assert decided(hopeless, AIM) == {"7": 2, "8": 2}


dues = st.one_of(st.none(), st.floats(-1e3, 1e5))


@given(st.lists(dues, min_size=1, max_size=3), st.lists(dues, min_size=1, max_size=3))
def test_whatever_deadlines_one_user_claims_the_others_are_dealt_the_same(
    first: list[float | None], second: list[float | None]
) -> None:
    def dealt(claims: list[float | None]) -> dict[str, int]:
        mine = [request(f"1{number}", "mine", due) for number, due in enumerate(claims)]
        others = [request("2", "others", 400.0), request("3", "third")]
        return sizes_of(judge(facts(*mine, *others), Memory(), AIM))

    second = (second * 3)[: len(first)]
    if len(second) == len(first):
        assert dealt(first) == dealt(second)


def sizes_of(judgement: Judgement) -> dict[str, int]:
    """User → nodes that he is dealt."""
    return {claimant.path[-1]: len(names) for some, names in judgement.allotment for claimant in some}


def test_a_node_that_would_earn_less_than_its_electricity_is_lent_to_nobody() -> None:
    found = judge(facts(request("7", "news")), Memory(), ENERGY)
    assert decided(found, ENERGY) == {"7": 4}, "each of the last two adds 0.6"
    dear = replace(ENERGY, objective="weighted,energy=2200")
    assert decided(judge(facts(request("7", "news")), Memory(), dear), dear) == {"7": 2}


def test_who_wants_no_node_for_its_electricity_is_told_so() -> None:
    dear = replace(ENERGY, objective="weighted,energy=36000")
    found = judge(facts(request("7", "news")), Memory(), dear)
    assert decided(found, dear) == {}
    assert judge_trainings(TrainingContext(found)) == {
        "7": (
            "too dear",
            "starting it now would cost more than it gains within decide.horizon, "
            "electricity counted (decide.objective)",
        )
    }


def test_a_weight_makes_electricity_no_cheaper() -> None:
    dear = replace(ENERGY, objective="weighted,energy=2200")
    for weight in (0.01, 100.0):
        found = judge(facts(request("7", "news", weight=weight)), Memory(), dear)
        assert decided(found, dear) == {"7": 2}, weight


def test_nodes_that_take_less_are_lent_first_and_the_others_only_for_what_they_earn() -> None:
    seen = of_features(facts(request("7", "news"), request("8", "games")), "n1", "n2")
    found = judge(seen, Memory(), replace(ENERGY, sharing=SharingRules()))
    watts = {node.name: node.traits.watts for nodes, _ in found.questions for node in nodes}
    assert watts == {"n1": 2000.0, "n2": 2000.0, "n3": 1000.0, "n4": 1000.0}
    lent = decided(found, ENERGY)
    assert sum(lent.values()) == 2, "nobody earns 1.17 on one node"


def test_electricity_moves_no_share_from_who_can_use_it() -> None:
    both = facts(request("7", "news", 370.0), request("8", "games"))
    rules = replace(ENERGY, objective="speedup,energy=36000,deadlines=1000")
    assert sizes_of(judge(both, Memory(), rules)) == {"user news": 4}, "the other would take none"
    cheap = replace(rules, objective="speedup,energy=360,deadlines=1000")
    assert sizes_of(judge(both, Memory(), cheap)) == {"user news": 2, "user games": 2}


@pytest.mark.parametrize("objective", ["speedup", "speedup,deadlines=3"])
def test_where_the_objective_counts_no_electricity_nodes_are_as_they_were(objective: str) -> None:
    seen: Facts = facts(request("7", "news"))
    found = judge(seen, Memory(), replace(ENERGY, objective=objective))
    assert [node.traits.watts for nodes, _ in found.questions for node in nodes] == [0.0] * len(NAMES)


def test_a_part_of_a_node_takes_a_part_of_its_electricity() -> None:
    found = judge(facts(request("7", "news")), Memory(), RULES)
    ((nodes, _),) = found.questions
    halves = with_watts(nodes, found.facts.snapshot, ENERGY.draw, ENERGY.objective, 0.5)
    assert {place.traits.watts for place in halves} == {500.0}
