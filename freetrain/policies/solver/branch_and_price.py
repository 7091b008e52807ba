"""Branch and price: a plan for several classes of nodes, and a bound that says how good it is.

The steps of the package's docstring in their order: column generation, rounding, reduced-cost enumeration,
branching.

Branching is a search over *subproblems*, sets of plans that some limits allow. The one with the highest bound
comes first: all good enough plans in it are enumerated where they are few, its relaxation is rounded, and it is
branched: on how many trainers grow, on whether one pays for an end, or on a size. The branching is chosen by
*strong branching*: the one after which the bounds are lowest. The value of the known columns in a branch is a
lower bound on the branch's bound and is known sooner; so branchings are evaluated in the order of that, a few of
them, until the next one cannot be better.

Without branching the bound stays 0.3 to 1.7 % above the plan where changes are dear (medians of
``benchmarks.ends``), and 12 % at worst; with it 0.1 % is reached.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.column_generation import (
    EXACT,
    Clock,
    ColumnPlan,
    Duals,
    Master,
    PricingResult,
    generate_columns,
    solve_pricing,
)
from freetrain.policies.solver.enumeration import Incumbent, ReducedCostEnumeration, plan_value
from freetrain.policies.solver.guests import SolverAnswer
from freetrain.policies.solver.pricing_dp import DPStructure, DualPrices
from freetrain.policies.solver.rounding import INTEGRALITY, ColumnWeights, integer_plans
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes, no_limits

_MAX_SPLIT = 4
"""Types of at most so many trainers are split into single ones, where that is needed to close the gap."""
_SLACKS = tuple(GOOD_ENOUGH / 2 * 3**step for step in range(5))
"""Slacks of the enumeration, relative to the bound, as long as its columns may be few."""
_FIRST_STEPS = 4
"""Steps that seek half of the gap allowed, which is often reached at once; after them that gap is enough."""
_MAX_STEPS = 200
"""Subproblems that are branched at most."""
_MAX_STRONG_BRANCHINGS = 4
"""Branchings whose bounds are computed, to choose the best."""
_TAIL = 0.05
"""Column generation in a branch stops where the bound can fall by less than this share of what is missing."""
_WEIGHT_OF_LOWER = 0.1
"""Weight of a branching's lower bound beside its higher one, which is the bound that is left."""
Subproblem = tuple[float, BranchLimits, Duals]
"""A bound, the limits of the plans that it bounds, and the prices that prove it."""
Branches = tuple[BranchLimits, BranchLimits]
"""Two disjoint sets of plans that together hold all integer plans of the subproblem."""
_MAX_TYPES = 2
"""Candidates of each kind of branching; each costs at least two runs of the master."""


def solve(trainers: TrainerTypes, rows: Sequence[Sequence[int]], *, left_s: Clock) -> SolverAnswer:
    """An allocation and a bound on all of them, for rows of the problem's trainers of each type."""
    plan, bound = solve_by_type(trainers, left_s)
    counts = np.zeros((sum(map(len, rows)), len(trainers.capacity)), dtype=np.int64)
    for of_type, type_counts in zip(rows, plan, strict=True):
        counts[of_type] = type_counts
    proven = bound - plan_value(trainers, plan) <= EXACT * max(1.0, abs(bound))
    is_late = left_s() <= 0
    return SolverAnswer(counts, proven, bound, "its time had run out" if is_late else "", is_late)


def solve_by_type(trainers: TrainerTypes, left_s: Clock) -> tuple[ColumnPlan, float]:
    """A plan and a bound on all plans."""
    no_nodes = [np.zeros((number, len(trainers.capacity)), np.int64) for number in trainers.number.tolist()]
    best = Incumbent(trainers, no_nodes, plan_value(trainers, no_nodes))
    bound = BranchAndBound(best, left_s).improve()
    single = trainers.split_small_types(_MAX_SPLIT)
    if bound <= best.good_enough_bound or len(single.number) == len(trainers.number) or left_s() <= 0:
        return best.plan, bound
    # The weights of a type tell what its trainers get together: ends and sizes are branched for single ones only.
    plan = [
        part
        for counts in best.plan
        for part in (np.split(counts, len(counts)) if 1 < len(counts) <= _MAX_SPLIT else [counts])
    ]
    split = Incumbent(single, plan, best.value)
    bound = min(bound, BranchAndBound(split, left_s).improve())
    rows = np.concatenate(split.plan)
    return np.split(rows, np.cumsum(trainers.number)[:-1]), max(bound, split.value)


class BranchAndBound:
    """A search for a better plan than the best one so far, beginning with the relaxation without limits, the root.

    Args:
        best: the plan to improve.
        left_s: wall seconds that are left; at 0 the search ends.
    """

    def __init__(self, best: Incumbent, left_s: Clock) -> None:
        self.best, self.left_s = best, left_s
        self.master, self.limits = Master(best.trainers), no_limits(best.trainers)
        # What is always possible: no nodes, and the nodes held now.
        held = best.trainers.held_by_type
        self.master.add_all(np.zeros_like(held))
        self.master.add_all(held)
        self.root = generate_columns(self.master, self.limits, left_s)
        self.enumeration = ReducedCostEnumeration(best)
        self._structure: DPStructure | None = None
        self._value_of_structure = -np.inf

    def improve(self) -> float:
        """Improve the plan until it is good enough, and prove its optimum where that is cheap; the bound."""
        best, root, enumeration = self.best, self.root, self.enumeration
        bound = root.bound
        _, _, taken = self.master.relax()
        for plan in integer_plans(self.master, taken, self.limits, self.left_s):
            best.improve(plan)
            if bound <= best.good_enough_bound:
                break
        # Enumeration is tried before branching: where it is affordable it proves the optimum within its slack.
        for share in _SLACKS:
            missing = root.bound - best.good_enough_bound
            if bound <= best.good_enough_bound or self.left_s() <= 0 or not enumeration.is_promising(missing):
                break
            bound = min(bound, enumeration.bound_within(share * abs(root.bound), root))
        if bound > best.good_enough_bound:
            bound = self._branch_and_bound(bound)
        # A last enumeration proves the optimum where few columns can be part of anything better.
        is_open = bound - best.value > EXACT * max(1.0, abs(bound)) and self.left_s() > 0
        if is_open and (bound > best.good_enough_bound or enumeration.is_promising(root.bound - best.value)):
            bound = min(bound, enumeration.bound_within(np.inf, root))
        # A bound below a known plan is rounding.
        return max(bound, best.value)

    def _branch_and_bound(self, known: float) -> float:
        """Branch until the incumbent is good enough; the bound on all plans, at most the one that is known."""
        best, settled = self.best, -np.inf
        bound, limits, duals = self.root.bound, self.limits, self.root.duals
        waiting: list[tuple[float, int, BranchLimits, Duals]] = []
        for step in itertools.count():
            if step == _FIRST_STEPS:
                best.gap = GOOD_ENOUGH
            if step and bound > best.good_enough_bound:
                bound = self._enumerate(bound, limits, duals)
            subproblems = self._branch(bound, limits, duals) if bound > best.good_enough_bound else None
            if subproblems is None:
                settled = max(settled, bound)
            else:
                for number, (lower, branch, prices) in enumerate(subproblems):
                    # The number decides between equal bounds, as limits cannot be compared.
                    heapq.heappush(waiting, (-lower, 2 * step + number, branch, prices))
            if (
                not waiting
                or min(known, -waiting[0][0]) <= best.good_enough_bound
                or step == _MAX_STEPS
                or self.left_s() <= 0
            ):
                break
            negative_bound, _, limits, duals = heapq.heappop(waiting)
            bound = -negative_bound
        return min(known, max(settled, best.value, *(-negative_bound for negative_bound, *_ in waiting)))

    def _branch(self, bound: float, limits: BranchLimits, known: Duals) -> Sequence[Subproblem] | None:
        """Round a subproblem's relaxation and branch it; None: nothing better can be in it."""
        best = self.best
        self.master.apply_limits(limits)
        _, duals, taken = self.master.relax()
        plan = next(integer_plans(self.master, taken, limits, self.left_s), best.plan)
        best.improve(plan)
        if bound <= best.good_enough_bound:
            return None
        found = list(find_branchings(self.master, duals.nodes, taken, plan, limits))
        if not found:
            return None
        if self.left_s() <= 0:
            return [(bound, limits, known)]
        # Modes of change become hopeless only with a better incumbent; the programme's time is that of its rows.
        if best.value > self._value_of_structure:
            self._value_of_structure = best.value
            self._structure = self.root.structure_within(self.root.bound - best.value)
        return self._strong_branching(found, bound)

    def _strong_branching(self, found: Sequence[Branches], bound: float) -> Sequence[Subproblem]:
        """The branches of the branching after which the bounds are lowest."""
        chosen: Sequence[Subproblem] = []
        least = np.inf
        for known, branches in islice(self._by_restricted_bound(found), _MAX_STRONG_BRANCHINGS):
            if self._score(known) >= least or (chosen and self.left_s() <= 0):
                break
            bounds, subproblems = sorted(known, reverse=True), list[Subproblem]()
            # The branch in which known columns are worth more shows sooner that the branching is not the best.
            by_value = sorted(zip(known, branches, strict=True), key=lambda pair: -pair[0])
            for number, (_, branch) in enumerate(by_value):
                other = max(bounds[1 - number], self.best.good_enough_bound)
                relaxed = self._relax(branch, least - _WEIGHT_OF_LOWER * other)
                bounds[number] = min(bound, relaxed.bound)
                subproblems.append((bounds[number], branch, relaxed.duals))
                if self._score(bounds) >= least:
                    break
            else:
                # Not cut off: both branches were evaluated, and none before left a lower bound.
                chosen, least = subproblems, self._score(bounds)
            # Both branches are good enough: no branching can be better.
            if least <= (1 + _WEIGHT_OF_LOWER) * self.best.good_enough_bound:
                break
        return chosen

    def _score(self, bounds: Sequence[float]) -> float:
        """The bound that a branching leaves, with a small share of its lower one; the lower, the better."""
        lower, higher = sorted(max(bound, self.best.good_enough_bound) for bound in bounds)
        return higher + _WEIGHT_OF_LOWER * lower

    def _relax(self, branch: BranchLimits, give_up_at: float) -> PricingResult:
        good_enough, structure = self.best.good_enough_bound, self._structure
        return generate_columns(
            self.master, branch, self.left_s, good_enough, give_up_at, structure, tail_share=_TAIL
        )

    def _enumerate(self, bound: float, limits: BranchLimits, duals: Duals) -> float:
        """The bound after all plans were searched that would be good enough, where they may be few."""
        best = self.best
        if not self.enumeration.is_promising(bound - best.good_enough_bound):
            return bound
        pricing = solve_pricing(best.trainers, duals, limits, self._structure)
        return min(bound, self.enumeration.bound_within(pricing.bound - best.good_enough_bound, pricing))

    def _by_restricted_bound(self, found: Sequence[Branches]) -> Iterable[tuple[tuple[float, float], Branches]]:
        if len(found) == 1:
            return [((-np.inf, -np.inf), found[0])]
        known = [(self.master.value_within(low), self.master.value_within(high)) for low, high in found]
        return sorted(zip(known, found, strict=True), key=lambda pair: self._score(pair[0]))


def find_branchings(
    master: Master, prices: DualPrices, weights: ColumnWeights, plan: ColumnPlan, limits: BranchLimits
) -> Iterator[Branches]:
    """Candidates for branching; none: the relaxation leaves nothing open.

    Groups of types come first; then, for each kind of branching, the types to which the rounded plan gives least
    of what the relaxation promises them.
    """
    trainers, type_ids, counts = master.trainers, master.type_ids, master.counts
    mixed = np.unique(type_ids[np.abs(weights - np.rint(weights)) > INTEGRALITY]).tolist()
    promised = np.bincount(type_ids, weights * (master.values - counts @ prices))
    missed = {
        type_id: promised[type_id]
        - float((trainers.values_of(type_id, plan[type_id]) - plan[type_id] @ prices).sum())
        for type_id in mixed
    }
    # What rounding loses most on is what the relaxation is furthest from being integer in.
    order = sorted(missed, key=missed.__getitem__, reverse=True)
    columns = {type_id: (type_ids == type_id) & (weights > INTEGRALITY) for type_id in order}
    of = {type_id: (type_id, counts[own], weights[own], limits) for type_id, own in columns.items()}
    yield from islice(_by_growth_together(trainers, type_ids, counts, weights, limits), _MAX_TYPES)
    for branching in (_by_end, _by_growth, _by_size):
        yield from islice(filter(None, (branching(trainers, *of[type_id]) for type_id in order)), _MAX_TYPES)


def _by_growth_together(
    trainers: TrainerTypes, type_ids: Sizes, counts: Counts, weights: ColumnWeights, limits: BranchLimits
) -> Iterator[Branches]:
    """Branches: at most so many trainers of a group of types grow, or more."""
    grows = counts.sum(axis=1) > trainers.held_by_type.sum(axis=1)[type_ids]
    several = np.arange(len(trainers.number), len(trainers.groups))[::-1]
    numbers = trainers.groups[several] @ np.bincount(
        type_ids[grows], weights[grows], minlength=len(trainers.number)
    )
    for group, number in zip(several.tolist(), numbers.tolist(), strict=True):
        # A weight of 2.9999999 is 3: only what is fractional beyond rounding can be branched on.
        whole = int(np.floor(number + INTEGRALITY))
        if number - whole > INTEGRALITY:
            yield limits.at_most_growing(group, whole), limits.more_growing_than(group, whole)


def _by_growth(
    trainers: TrainerTypes, type_id: int, columns: Counts, weights: ColumnWeights, limits: BranchLimits
) -> Branches | None:
    """Branches: at most so many of a type grow, or more; of a single one, only one choice, or no growth by it."""
    choices, held = trainers.choices_of[type_id], int(trainers.held_by_type[type_id].sum())
    grows = columns.sum(axis=1) > held
    number = float(weights[grows].sum())
    whole = int(np.floor(number + INTEGRALITY))
    if number - whole > INTEGRALITY:
        return limits.at_most_growing(type_id, whole), limits.more_growing_than(type_id, whole)
    growing = {trainers.choice_of(type_id, column) for column in columns[grows]}
    if len(growing) < 2 or trainers.number[type_id] > 1:
        return None
    choice = min(growing)
    others = [other for other in choices if other != choice]
    return limits.without(others), limits.at_most([choice], len(trainers.last_of_life) - 1, held)


def _by_end(
    trainers: TrainerTypes, type_id: int, columns: Counts, weights: ColumnWeights, limits: BranchLimits
) -> Branches | None:
    """Branches: a single trainer has no nodes that leave at a time, or some."""
    if trainers.number[type_id] > 1:
        return None
    leave = np.diff(trainers.sizes_of(columns), axis=1, prepend=0) > 0
    some = weights @ leave / weights.sum()
    time = int(np.minimum(some, 1 - some).argmax())
    if not INTEGRALITY < some[time] < 1 - INTEGRALITY:
        return None
    choices = trainers.choices_of[type_id]
    return limits.with_end(choices, time, -1), limits.with_end(choices, time, 1)


def _by_size(
    trainers: TrainerTypes, type_id: int, columns: Counts, weights: ColumnWeights, limits: BranchLimits
) -> Branches | None:
    """Branches: a single trainer has at most its mean size, or more, when its columns differ most."""
    if trainers.number[type_id] > 1:
        return None
    sizes, choices = trainers.sizes_of(columns), trainers.choices_of[type_id]
    mean = weights @ sizes / weights.sum()
    apart = weights @ np.abs(sizes - mean)
    time = int(apart.argmax())
    if apart[time] <= INTEGRALITY:
        return None
    size = int(np.floor(mean[time] + INTEGRALITY))
    return limits.at_most(choices, time, size), limits.more_than(choices, time, size)
