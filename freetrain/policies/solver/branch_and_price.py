"""Branch and price: a plan for several classes of nodes, and a bound that says how good it is.

The steps of the package's docstring in their order: column generation, rounding, reduced-cost enumeration,
branching.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.policies.solver.branch_limits import no_limits
from freetrain.policies.solver.branching import BranchAndBound
from freetrain.policies.solver.column_generation import EXACT, Clock, Master, Plan, generate_columns
from freetrain.policies.solver.enumeration import Incumbent, ReducedCostEnumeration, plan_value
from freetrain.policies.solver.guests import SolverAnswer
from freetrain.policies.solver.trainer_types import TrainerTypes

_MAX_SPLIT = 4
"""Types of at most so many trainers are split into single ones, where that is needed to close the gap."""
_SLACKS = tuple(GOOD_ENOUGH / 2 * 3**step for step in range(5))
"""Slacks of the enumeration, relative to the bound, as long as its columns may be few."""


def solve(trainers: TrainerTypes, rows: Sequence[Sequence[int]], *, left_s: Clock) -> SolverAnswer:
    """An allocation and a bound on all of them.

    Args:
        trainers: the trainers.
        rows: of the problem's trainers of each type.
        left_s: wall seconds that are left; at 0 the best allocation so far is the answer.
    """
    plan, bound = solve_by_type(trainers, left_s)
    counts = np.zeros((sum(map(len, rows)), len(trainers.capacity)), dtype=np.int64)
    for of_type, type_counts in zip(rows, plan, strict=True):
        counts[of_type] = type_counts
    proven = bound - plan_value(trainers, plan) <= EXACT * max(1.0, abs(bound))
    is_late = left_s() <= 0
    return SolverAnswer(counts, proven, bound, "its time had run out" if is_late else "", is_late)


def solve_by_type(trainers: TrainerTypes, left_s: Clock) -> tuple[Plan, float]:
    """A plan and a bound on all plans."""
    no_nodes = [np.zeros((number, len(trainers.capacity)), np.int64) for number in trainers.number.tolist()]
    best = Incumbent(trainers, no_nodes, plan_value(trainers, no_nodes))
    bound = _improve_incumbent(best, left_s)
    single = trainers.split_small_types(_MAX_SPLIT)
    if bound <= best.good_enough_bound or len(single.number) == len(trainers.number) or left_s() <= 0:
        return best.plan, bound
    # The weights of a type tell what its trainers get together: ends and sizes are branched for single ones only.
    split = Incumbent(single, _split_plan(best.plan), best.value)
    bound = min(bound, _improve_incumbent(split, left_s))
    return _rejoin_plan(split.plan, trainers.number.tolist()), max(bound, split.value)


def _improve_incumbent(best: Incumbent, left_s: Clock) -> float:
    """Improve the plan until it is good enough; the bound on all plans."""
    master, limits = _initial_master(best.trainers), no_limits(best.trainers)
    root, enumeration = generate_columns(master, best.trainers, limits, left_s), ReducedCostEnumeration(best)
    search = BranchAndBound(master, root, best, enumeration, left_s)
    search.make_plans()
    bound = root.bound
    # Enumeration is tried before branching: where it is affordable it proves the optimum within its slack.
    for share in _SLACKS:
        missing = root.bound - best.good_enough_bound
        if bound <= best.good_enough_bound or left_s() <= 0 or not enumeration.is_promising(missing):
            break
        bound = min(bound, enumeration.bound_within(share * abs(root.bound), root, limits))
    if bound > best.good_enough_bound:
        bound = search.run(bound)
    # A last enumeration proves the optimum where few columns can be part of anything better.
    is_open = bound - best.value > EXACT * max(1.0, abs(bound)) and left_s() > 0
    if is_open and (bound > best.good_enough_bound or enumeration.is_promising(root.bound - best.value)):
        bound = min(bound, enumeration.bound_within(np.inf, root, limits))
    return max(bound, best.value)


def _split_plan(plan: Plan) -> Plan:
    """The same plan for ``TrainerTypes.split_small_types``."""
    return [
        part
        for counts in plan
        for part in (np.split(counts, len(counts)) if 1 < len(counts) <= _MAX_SPLIT else [counts])
    ]


def _rejoin_plan(plan: Plan, number: Sequence[int]) -> Plan:
    """The same plan with so many trainers of each type again."""
    rows = np.concatenate(plan)
    return np.split(rows, np.cumsum(number)[:-1])


def _initial_master(trainers: TrainerTypes) -> Master:
    """A master with the columns that are always possible: no nodes, and the nodes held now."""
    master = Master(trainers)
    held = trainers.held_by_type
    master.add_all(np.zeros_like(held))
    master.add_all(held)
    return master
