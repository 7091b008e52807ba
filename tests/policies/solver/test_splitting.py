"""Splitting: no plan is in both halves, none is lost, and the mixture that was split is in neither."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.problems import problem_with_ends, with_kinds
from freetrain.core.problem import Problem
from freetrain.policies.solver.bidders import Bidders, bidders_of
from freetrain.policies.solver.limits import Limits, no_limits
from freetrain.policies.solver.master import Master
from freetrain.policies.solver.replies import best_replies
from freetrain.policies.solver.splitting import Halves, splits
from freetrain.policies.solver.whole_plans import Taken, whole_plans

DEAR = (60.0, 60.0, 360.0, 60.0)


def relaxed(problem: Problem) -> Master:
    """The columns of some rounds."""
    bidders, _ = bidders_of(problem)
    master = Master(bidders)
    master.add_all(np.zeros_like(bidders.held_by_kind))
    for _ in range(8):
        _, duals, _ = master.relax()
        master.add_all(best_replies(bidders, duals).counts)
    return master


PROBLEMS = [problem_with_ends(seed, 8, 60, 4, DEAR) for seed in range(5)]
OF_KINDS = [with_kinds(problem, seed, 2) for seed, problem in enumerate(PROBLEMS)]


@pytest.mark.parametrize("problem", [*PROBLEMS, *OF_KINDS])
def test_a_whole_plan_is_in_one_half_and_the_mixture_between_them(problem: Problem) -> None:
    bidders, _ = bidders_of(problem)
    master, limits = relaxed(problem), no_limits(bidders)
    _, duals, taken = master.relax()
    plan = next(whole_plans(master, bidders, taken, limits, lambda: 60.0))
    found = list(splits(master, bidders, (duals.nodes, taken), plan, limits))
    is_mixed = bool((np.abs(taken - np.rint(taken)) > 1e-6).any())
    assert bool(found) == is_mixed
    for halves in found:
        assert_all_is_in_one_half(halves, bidders, master, taken)


def assert_all_is_in_one_half(halves: Halves, bidders: Bidders, master: Master, taken: Taken) -> None:
    low, high = halves
    apart = np.flatnonzero(low.most_growing < high.fewest_growing)
    if len(apart):
        (group,) = apart.tolist()
        assert low.most_growing[group] + 1 == high.fewest_growing[group]
        grows = master.counts.sum(axis=1) > bidders.held_by_kind.sum(axis=1)[master.kinds]
        grows &= bidders.groups[group][master.kinds]
        assert low.most_growing[group] < taken[grows].sum() < high.fewest_growing[group]
        return
    inside = np.array(
        [[is_inside(half, bidders, master, column) for column in range(len(master))] for half in halves]
    )
    assert inside.any(axis=0).all()
    (kind,) = set(master.kinds[~inside.all(axis=0)].tolist())
    some = (master.kinds == kind) & (taken > 1e-6)
    assert not inside[:, some].all(axis=1).any()


def is_inside(half: Limits, bidders: Bidders, master: Master, column: int) -> bool:
    bids = bidders.bids_for(int(master.kinds[column]), master.counts[column])
    return bool(half.hold(np.array(bids), master.sizes[column][None]).any())
