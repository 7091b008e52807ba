"""Branching: no plan is in both branches, none is lost, and the relaxed solution is in neither."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.problems import problem_with_ends, with_kinds
from freetrain.core.problem import Problem
from freetrain.policies.solver.branch_limits import BranchLimits, no_limits
from freetrain.policies.solver.branching import Branches, find_branchings
from freetrain.policies.solver.column_generation import Master
from freetrain.policies.solver.pricing_problem import solve_pricing
from freetrain.policies.solver.rounding import ColumnWeights, integer_plans
from freetrain.policies.solver.trainer_types import TrainerTypes, types_of

DEAR = (60.0, 60.0, 360.0, 60.0)


def relaxed(problem: Problem) -> Master:
    """The columns of some rounds."""
    trainers, _ = types_of(problem)
    master = Master(trainers)
    master.add_all(np.zeros_like(trainers.held_by_type))
    for _ in range(8):
        _, duals, _ = master.relax()
        master.add_all(solve_pricing(trainers, duals).counts)
    return master


PROBLEMS = [problem_with_ends(seed, 8, 60, 4, DEAR) for seed in range(5)]
OF_KINDS = [with_kinds(problem, seed, 2) for seed, problem in enumerate(PROBLEMS)]


@pytest.mark.parametrize("problem", [*PROBLEMS, *OF_KINDS])
def test_a_whole_plan_is_in_one_half_and_the_mixture_between_them(problem: Problem) -> None:
    trainers, _ = types_of(problem)
    master, limits = relaxed(problem), no_limits(trainers)
    _, duals, taken = master.relax()
    plan = next(integer_plans(master, trainers, taken, limits, lambda: 60.0))
    found = list(find_branchings(master, trainers, (duals.nodes, taken), plan, limits))
    is_mixed = bool((np.abs(taken - np.rint(taken)) > 1e-6).any())
    assert bool(found) == is_mixed
    for halves in found:
        assert_all_is_in_one_half(halves, trainers, master, taken)


def assert_all_is_in_one_half(
    halves: Branches, trainers: TrainerTypes, master: Master, taken: ColumnWeights
) -> None:
    low, high = halves
    apart = np.flatnonzero(low.max_growing < high.min_growing)
    if len(apart):
        (group,) = apart.tolist()
        assert low.max_growing[group] + 1 == high.min_growing[group]
        grows = master.counts.sum(axis=1) > trainers.held_by_type.sum(axis=1)[master.type_ids]
        grows &= trainers.groups[group][master.type_ids]
        assert low.max_growing[group] < taken[grows].sum() < high.min_growing[group]
        return
    inside = np.array(
        [[is_inside(half, trainers, master, column) for column in range(len(master))] for half in halves]
    )
    assert inside.any(axis=0).all()
    (type_id,) = set(master.type_ids[~inside.all(axis=0)].tolist())
    some = (master.type_ids == type_id) & (taken > 1e-6)
    assert not inside[:, some].all(axis=1).any()


def is_inside(half: BranchLimits, trainers: TrainerTypes, master: Master, column: int) -> bool:
    choices = trainers.choices_covering(int(master.type_ids[column]), master.counts[column])
    return bool(half.allow(np.array(choices), master.sizes[column][None]).any())
