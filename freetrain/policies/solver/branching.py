"""Branching: what the relaxed combination leaves open is tried both ways, until the best plan is good enough.

A part of all plans is what some limits allow. The part of the highest bound is looked at first: whole plans are
made of its combination, and it is split; before that, all plans in it that would be good enough are tried, where
they are few (``trying.py``). Of several splits that one is taken after which the bound is lowest. What the known
columns are worth in a half is no more than the half's bound, and is known sooner; so splits are followed up in the
order of that, a few of them, until the next one cannot be better.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from freetrain.core.decision import GOOD_ENOUGH
from freetrain.policies.solver.best import Best
from freetrain.policies.solver.generating import Clock, Relaxed, generate
from freetrain.policies.solver.limits import Limits, no_limits
from freetrain.policies.solver.master import Master
from freetrain.policies.solver.over_classes import Layout
from freetrain.policies.solver.replies import Duals, best_replies
from freetrain.policies.solver.splitting import Halves, splits
from freetrain.policies.solver.trying import Trying
from freetrain.policies.solver.whole_plans import whole_plans

_FIRST_LOOKS = 4
"""So long that much is sought, which is often there at once; then what is good enough ends the search."""
_MOST_LOOKS = 200
"""At parts of all plans."""
_MOST_SPLITS = 4
"""Splits whose halves' bounds are found out, to choose the best of them."""
_TAIL = 0.05
"""Of how far a half's bound lies above what is good enough: what it could be lower and is not worth the time."""
_WEIGHT_OF_LEAST = 0.1
"""Of the lower bound of two halves beside the higher one, which says how close to the best plan one gets."""

Part = tuple[float, Limits, Duals]
"""A bound on plans within limits, and the prices that prove it."""


@dataclass(slots=True)
class Search:
    """A search for a better plan.

    Attributes:
        master: the columns, which come to be more.
        root: what is known of all plans together.
        best: the best plan, which comes to be better.
        trying: tries all plans where they are few.
        left_s: wall seconds that are left; when none are, it ends.
    """

    master: Master
    root: Relaxed
    best: Best
    trying: Trying
    left_s: Clock
    _layout: Layout | None = None
    _worth_of_layout: float = -np.inf

    def run(self, known: float) -> float:
        """Look until the best plan is good enough; the bound that is left.

        Args:
            known: a bound on all plans, from elsewhere.
        """
        best, settled = self.best, -np.inf
        bound, limits, duals = self.root.bound, no_limits(self.best.bidders), self.root.duals
        waiting: list[tuple[float, int, Limits, Duals]] = []
        for look in itertools.count():
            if look == _FIRST_LOOKS:
                best.gap = GOOD_ENOUGH
            if look and bound > best.enough:
                bound = self._tried(bound, limits, duals)
            parts = self._look(bound, limits, duals) if bound > best.enough else None
            if parts is None:
                settled = max(settled, bound)
            else:
                for number, (lower, part, its) in enumerate(parts):
                    heapq.heappush(waiting, (-lower, 2 * look + number, part, its))
            if (
                not waiting
                or min(known, -waiting[0][0]) <= best.enough
                or look == _MOST_LOOKS
                or self.left_s() <= 0
            ):
                break
            minus, _, limits, duals = heapq.heappop(waiting)
            bound = -minus
        return min(known, max(settled, best.value, *(-minus for minus, *_ in waiting)))

    def make_plans(self) -> None:
        """Make whole plans of the combination of all."""
        _, _, taken = self.master.relax()
        for plan in whole_plans(self.master, self.best.bidders, taken, no_limits(self.best.bidders), self.left_s):
            self.best.take_if_better(plan)
            if self.root.bound <= self.best.enough:
                break

    def _look(self, bound: float, limits: Limits, known: Duals) -> Sequence[Part] | None:
        """Make a whole plan of the combination, and split what is not clear in it."""
        best = self.best
        self.master.allow(limits)
        _, duals, taken = self.master.relax()
        plan = next(whole_plans(self.master, best.bidders, taken, limits, self.left_s), best.plan)
        best.take_if_better(plan)
        if bound <= best.enough:
            return None
        found = list(splits(self.master, best.bidders, (duals.nodes, taken), plan, limits))
        if not found:
            return None
        if self.left_s() <= 0:
            return [(bound, limits, known)]
        self._leave_out_ways()
        return self._best_of(found, bound)

    def _leave_out_ways(self) -> None:
        """Leave out the ways to change that are in no better plan than the best one."""
        if self.best.value > self._worth_of_layout:
            self._worth_of_layout = self.best.value
            self._layout = self.root.replies.layout_within(self.best.bidders, self.root.bound - self.best.value)

    def _best_of(self, found: Sequence[Halves], bound: float) -> Sequence[Part]:
        """The halves of the split after which the bounds are lowest."""
        chosen: Sequence[Part] = []
        least = np.inf
        for known, halves in islice(self._by_known_columns(found), _MOST_SPLITS):
            if self._left_by(known) >= least or (chosen and self.left_s() <= 0):
                break
            bounds, parts = sorted(known, reverse=True), list[Part]()
            # The half in which known columns are worth more says sooner that the split is not the best.
            for number, (_, half) in enumerate(sorted(zip(known, halves, strict=True), key=lambda each: -each[0])):
                other = max(bounds[1 - number], self.best.enough)
                relaxed = self._relaxed(half, least - _WEIGHT_OF_LEAST * other)
                bounds[number] = min(bound, relaxed.bound)
                parts.append((bounds[number], half, relaxed.duals))
                if self._left_by(bounds) >= least:
                    break
            else:
                chosen, least = parts, self._left_by(bounds)
            if least <= (1 + _WEIGHT_OF_LEAST) * self.best.enough:
                break
        return chosen

    def _left_by(self, bounds: Sequence[float]) -> float:
        """How much a split leaves to do."""
        least, most = sorted(max(each, self.best.enough) for each in bounds)
        return most + _WEIGHT_OF_LEAST * least

    def _relaxed(self, half: Limits, too_much: float) -> Relaxed:
        best = self.best
        return generate(
            self.master, best.bidders, half, self.left_s, best.enough, too_much, self._layout, tail=_TAIL
        )

    def _tried(self, bound: float, limits: Limits, duals: Duals) -> float:
        """The bound that is left when all plans are tried that would be good enough, where they may be few."""
        best = self.best
        if not self.trying.is_worth_it(bound - best.enough):
            return bound
        replies = best_replies(best.bidders, duals, limits, self._layout)
        relaxed = Relaxed(duals.bound(best.bidders, replies, limits), duals, replies)
        return min(bound, self.trying.bound_within(relaxed.bound - best.enough, relaxed, limits))

    def _by_known_columns(self, found: Sequence[Halves]) -> Iterable[tuple[tuple[float, float], Halves]]:
        """The splits, in the order of what known columns are worth in their better half."""
        if len(found) == 1:
            return [((-np.inf, -np.inf), found[0])]
        known = [(self.master.worth_within(low), self.master.worth_within(high)) for low, high in found]
        return sorted(zip(known, found, strict=True), key=lambda each: self._left_by(each[0]))
