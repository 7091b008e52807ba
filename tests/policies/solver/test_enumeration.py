"""The best combination of columns, held against all plans out of the same columns."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from freetrain.core.problem import Counts
from freetrain.policies.solver.column_generation import ColumnPool
from freetrain.policies.solver.enumeration import best_combination
from tests.seeds import seeds

CAPACITY = np.array([3, 2])


def some_choices(draw: np.random.Generator) -> ColumnPool:
    counts = np.unique(draw.integers(0, 3, (6, len(CAPACITY))), axis=0)
    return ColumnPool(counts, draw.uniform(0, 1, len(counts)))


def best_by_trying(
    choices: list[ColumnPool], number: list[int], prices: np.ndarray, slack: float
) -> tuple[float, list[Counts]]:
    """What the best plan loses, idle nodes included; inf: all lose more than the slack."""
    best: tuple[float, list[Counts]] = (np.inf, [])
    every = (
        list(combinations_with_replacement(range(len(choice.loss)), alike))
        for choice, alike in zip(choices, number, strict=True)
    )
    for picks in product(*every):
        plan = [choice.counts[list(pick)] for choice, pick in zip(choices, picks, strict=True)]
        idle = CAPACITY - sum(counts.sum(axis=0) for counts in plan)
        loss = sum(float(choice.loss[list(pick)].sum()) for choice, pick in zip(choices, picks, strict=True))
        loss += float(prices @ idle)
        if (idle >= 0).all() and loss <= min(slack, best[0]):
            best = loss, plan
    return best


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_the_best_plan_is_found_and_none_where_all_lose_too_much(seed: int) -> None:
    draw = np.random.default_rng(seed)
    number = draw.integers(1, 4, 3).tolist()
    choices = [some_choices(draw) for _ in number]
    prices = draw.uniform(0, 1, len(CAPACITY)) * draw.integers(0, 2, len(CAPACITY))
    slack = float(draw.uniform(0.1, 2))
    expected, _ = best_by_trying(choices, number, prices, slack)
    combination = best_combination(choices, number, CAPACITY, prices, slack)
    assert combination is not None
    loss, plan = combination
    assert loss == pytest.approx(expected)
    if not plan:
        return
    assert [len(counts) for counts in plan] == number
    idle = CAPACITY - sum(counts.sum(axis=0) for counts in plan)
    assert (idle >= 0).all()
    lost = {
        (type_id, counts.tobytes()): loss
        for type_id, choice in enumerate(choices)
        for counts, loss in zip(choice.counts, choice.loss.tolist(), strict=True)
    }
    of_each = [lost[type_id, counts.tobytes()] for type_id, each in enumerate(plan) for counts in each]
    assert sum(of_each) + float(prices @ idle) == pytest.approx(expected)


def test_who_has_nothing_to_choose_from_is_in_no_plan() -> None:
    nothing = ColumnPool(np.zeros((0, 2), np.int64), np.zeros(0))
    assert best_combination([nothing], [1], CAPACITY, np.zeros(2), 1.0) == (np.inf, [])


def test_too_many_choices_are_not_tried() -> None:
    many = np.array(list(product(range(40), range(40))))
    choices = [ColumnPool(many, np.zeros(len(many)))] * 3
    assert best_combination(choices, [1, 1, 1], np.array([100, 100]), np.ones(2), 1.0) is None
    assert best_combination(choices, [1, 1, 1], np.full(2, 2**40), np.ones(2), 1.0) is None


def test_of_many_choices_those_are_joined_with_which_the_others_use_what_is_left() -> None:
    """One after the other these are millions of plans; of each two groups few fit."""
    some = np.array(list(product(range(12), range(12))))
    choices = [ColumnPool(some, np.arange(len(some)) * 1.0)] * 2 + [ColumnPool(np.array([[20, 19]]), np.zeros(1))]
    combination = best_combination(choices, [2, 1, 1], np.array([30, 20]), np.full(2, 1e9), 1e6)
    assert combination is not None
    loss, plan = combination
    assert loss == 10 * 12 + 1  # ten nodes of the first class and one of the second are left
    assert [counts.sum(axis=0).tolist() for counts in plan][2] == [20, 19]


def test_choices_for_which_there_are_no_nodes_are_in_no_plan() -> None:
    """As a number of the classes they would look like one that fits."""
    choices = [ColumnPool(np.array([[0, 3], [3, 0]]), np.zeros(2))]
    combination = best_combination(choices, [1], CAPACITY, np.zeros(2), 1.0)
    assert combination is not None
    assert [counts.tolist() for counts in combination[1]] == [[[3, 0]]]
