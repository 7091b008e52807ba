"""GADGET on idle nodes: what has been done counts."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer, TrainerPast, past_of_samples
from freetrain.policies import find_policy
from freetrain.policies.gadget.policy import LINEAR, LOG, Utility
from tests.policies.deciding import decide

CURVE = ((1, 10.0), (2, 18.0), (4, 30.0))
NODES = tuple(Place(f"n{number}") for number in range(4))


def sizes(policy: str, problem: Problem) -> dict[str, int]:
    return {trainer: len(names) for trainer, names in decide(find_policy(policy), problem).placement.items()}


def test_with_a_logarithm_those_get_most_that_have_done_least() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=1e6) for name in ("young", "old"))
    problem = Problem(0.0, NODES, trainers, 3600.0, past={"old": TrainerPast(9e5)})
    assert sizes("gadget,utility=log", problem)["young"] > sizes("gadget,utility=log", problem).get("old", 0)
    assert sizes("gadget", problem) == {"young": 2, "old": 2}


def test_the_fairer_the_utility_the_more_goes_to_whom_has_done_less() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=1e6) for name in ("young", "old"))
    done = {"young": 1.5e5, "old": 2.5e5}
    problem = Problem(0.0, NODES, trainers, 3600.0, past=past_of_samples(done))
    of_young = [
        sizes(policy, problem)["young"] for policy in ("gadget", "gadget,utility=log", "gadget,utility=fair")
    ]
    assert of_young == sorted(of_young)
    assert of_young[0] < of_young[-1]


def test_what_would_be_done_beyond_the_target_counts_nothing() -> None:
    nearly = Trainer("nearly", CURVE, target_samples=1e5)
    problem = Problem(0.0, NODES, (nearly, Trainer("far", CURVE, target_samples=1e5)), 3600.0)
    assert sizes("gadget", problem) == {"nearly": 2, "far": 2}
    done = {"nearly": 1e5 - 20000.0}
    assert sizes(
        "gadget",
        Problem(
            0.0,
            NODES,
            problem.trainers,
            3600.0,
            past=past_of_samples(done),
        ),
    ) == {
        "nearly": 1,
        "far": 3,
    }


@pytest.mark.parametrize("policy", ["gadget", "gadget,utility=log", "gadget,utility=fair"])
def test_a_change_that_costs_more_than_it_brings_is_not_made(policy: str) -> None:
    nodes = (Place("n0", None, "a"), Place("n1", None, "b"), Place("n2"))
    slow = tuple(Trainer(name, CURVE, scale_up_s=500.0, target_samples=1e6) for name in "ab")
    assert sizes(policy, Problem(0.0, nodes, slow, 120.0)) == {"a": 1, "b": 1}
    quick = tuple(Trainer(name, CURVE, scale_up_s=5.0, target_samples=1e6) for name in "ab")
    assert sum(sizes(policy, Problem(0.0, nodes, quick, 120.0)).values()) == 3


def test_a_trainer_without_a_target_trains_as_well() -> None:
    assert sizes("gadget", Problem(0.0, NODES, (Trainer("endless", CURVE),), 3600.0)) == {"endless": 4}


@pytest.mark.parametrize("policy", ["gadget", "gadget,utility=log", "gadget,utility=fair"])
def test_nodes_that_add_no_utility_by_the_horizon_make_it_be_done_sooner(policy: str) -> None:
    """One node would do by the horizon, an hour away; four are done in 33 s, and then it is decided again."""
    quick = Trainer("quick", CURVE, target_samples=1000.0)
    assert sizes(policy, Problem(0.0, NODES, (quick,), 3600.0)) == {"quick": 4}


def test_being_done_sooner_counts_less_than_utility() -> None:
    quick = Trainer("quick", CURVE, target_samples=36_000.0)
    long = Trainer("long", CURVE, target_samples=1e6)
    assert sizes("gadget", Problem(0.0, NODES, (quick, long), 3600.0))["long"] == 3


def test_linear_utility_is_the_share_of_the_target() -> None:
    assert LINEAR.of(30.0, 120.0) == pytest.approx(0.25)
    assert LINEAR.of(30.0, 120.0, weight=4.0) == pytest.approx(1.0)


def test_logarithmic_utility_is_one_at_the_target() -> None:
    assert LOG.of(60.0, 120.0) == pytest.approx(math.log(5.5) / math.log(10))
    assert LOG.of(120.0, 120.0) == pytest.approx(1.0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_every_utility_grows_ever_slower_and_not_beyond_the_target(alpha: float) -> None:
    values = [Utility(alpha).of(10.0 * share, 100.0) for share in range(13)]
    gains = [after - before for before, after in pairwise(values)]
    assert all(later <= sooner + 1e-12 for sooner, later in pairwise(gains))
    assert values[10:] == pytest.approx([1.0] * 3)
    assert Utility(alpha).of(-5.0, 100.0) == 0.0
