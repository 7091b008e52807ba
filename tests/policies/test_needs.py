"""What is assumed of trainings that do not say what a policy has to know."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import total_value
from freetrain.policies import VARIANTS, find_policy
from freetrain.policies.needs import TARGET, say_missing
from tests.policies.deciding import decide

BY_TARGET = tuple(name for name in VARIANTS if name.partition(",")[0] in ("gadget", "smd"))
WELL = ((1, 100.0), (2, 193.187), (4, 373.213), (8, 721.0), (16, 1392.881))
FAIRLY = ((1, 100.0), (2, 174.11), (4, 303.143), (8, 527.803), (16, 918.959))
BADLY = ((1, 100.0), (2, 151.572), (4, 229.74), (8, 348.22), (16, 527.803))
THREE = tuple(Trainer(name, curve) for name, curve in zip("abc", (WELL, FAIRLY, BADLY), strict=True))


def problem_of(trainers: tuple[Trainer, ...], nodes: int = 8) -> Problem:
    return Problem(0.0, tuple(Place(f"n{number}") for number in range(nodes)), trainers, 1200.0)


@pytest.mark.parametrize("policy", BY_TARGET)
def test_without_targets_the_worst_scaler_does_not_get_everything(policy: str) -> None:
    problem = problem_of(THREE)
    allocation = find_policy(policy).decide(problem)
    assert sorted(allocation.counts.sum(axis=1).tolist()) == [2, 3, 3]
    assert total_value(problem, allocation.counts) > 8000
    assert allocation.notes == (
        "3 of 3 trainings name no target (a, b, c): assumed is a day's work at its fastest rate, on an equal "
        "share of the nodes at most.",
    )


@pytest.mark.parametrize("policy", BY_TARGET)
def test_what_is_assumed_does_not_depend_on_the_shape_of_a_curve(policy: str) -> None:
    for seed in range(30):
        draw = random.Random(seed)
        curves = [draw.choice((WELL, FAIRLY, BADLY)) for _ in range(draw.randint(2, 6))]
        nodes = len(curves) * draw.randint(1, 4)
        problem = problem_of(tuple(Trainer(f"t{row}", curve) for row, curve in enumerate(curves)), nodes)
        assert set(find_policy(policy).decide(problem).counts.sum(axis=1).tolist()) == {nodes // len(curves)}


@pytest.mark.parametrize("policy", BY_TARGET)
def test_a_training_without_a_target_never_gets_all_while_others_want_some(policy: str) -> None:
    for seed in range(30):
        draw = random.Random(seed)
        trainers = tuple(
            replace(trainer, target_samples=draw.choice((None, 1e7)), min_nodes=draw.choice((1, 2)))
            for trainer in THREE
        )
        problem = problem_of(trainers, draw.randint(3, 12))
        sizes = find_policy(policy).decide(problem).counts.sum(axis=1)
        most = -(-problem.node_count // len(trainers)) + 1
        assert all(
            size <= most for size, trainer in zip(sizes, trainers, strict=True) if trainer.target_samples is None
        )


@pytest.mark.parametrize("policy", BY_TARGET)
def test_alone_it_may_have_all(policy: str) -> None:
    assert {len(names) for names in decide(find_policy(policy), problem_of(THREE[:1])).placement.values()} == {8}


def test_who_names_a_target_is_not_said_to_lack_one() -> None:
    named = tuple(replace(trainer, target_samples=1e9) for trainer in THREE)
    assert list(say_missing((TARGET,), named)) == []
    (sentence,) = say_missing((TARGET,), (*named[:2], THREE[2]))
    assert sentence.startswith("1 of 3 trainings name no target (c): assumed is")
