r"""Replies: what each trainer would take of every class, if a node of each had a price.

With prices :math:`\lambda_c` the trainers do not compete any more. One with :math:`n_c` nodes of class *c*,
classes sorted by life, longest first, and :math:`N_c = n_0 + \dots + n_c`, is worth

.. math::
    -\mathrm{switch}(N) + \sum_c \bigl(\Delta_c\,o(N_c) - [n_c > 0]\,\ell_c\,o(N_c) - (\lambda_c + p_c)\,n_c\bigr)

(``freetrain.core.value``; :math:`\ell_c` is what a known end costs where the class is taken back, else 0;
:math:`p_c` what a node's electricity counts). Each choice of a trainer is two rows of a dynamic programme over
the classes (``over_classes.py``): nobody migrates, so one is that it keeps all nodes and gets more, and one
that it gets none and may lose some. For the former time counts from when new nodes have booted: what comes
before is the same whatever it gets, and it gets no node that leaves until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.core.value import UsefulTime
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.joining import Choices
from freetrain.policies.solver.limits import Limits
from freetrain.policies.solver.over_classes import Layout, Prices, Programme, Rows, Ways, lay_out, solve_programme


@dataclass(frozen=True, slots=True)
class Duals:
    """What a combination makes scarce.

    Attributes:
        nodes: price of one node of each class, shape (classes,).
        growth: price for one trainer of each group to grow, shape (groups,); below 0 where more ought to.
    """

    nodes: Prices
    growth: NDArray[np.float64]

    def growth_of_kinds(self, bidders: Bidders) -> NDArray[np.float64]:
        """What one trainer of each kind pays in all to grow, shape (kinds,)."""
        each, together = np.split(self.growth, [len(bidders.number)])
        return np.asarray(each + together @ bidders.groups[len(each) :])

    def bound(self, bidders: Bidders, replies: Replies, limits: Limits) -> float:
        """What no allocation within the limits is worth more than, by the best replies to these prices."""
        paid = np.maximum(self.growth * limits.fewest_growing, self.growth * limits.most_growing).sum()
        return float(self.nodes @ bidders.capacity + paid + replies.value @ bidders.number)


def best_replies(
    bidders: Bidders, duals: Duals, limits: Limits | None = None, layout: Layout | None = None
) -> Replies:
    """What each kind would choose within the limits of its bids; -inf where there is nothing to choose.

    Args:
        bidders: the trainers.
        duals: the prices.
        limits: of what they may have.
        layout: of the ways to change among which they choose; None: all there are.
    """
    if layout is None:
        layout = bidders.once(
            ("layout", bidders.capacity.tobytes()), lambda: lay_out(bidders, _ways_to_change(bidders))
        )
    programme = solve_programme(layout, duals.nodes, limits)
    ways = programme.ways
    whose = bidders.whose[ways.bids]
    growth = ways.grows * duals.growth_of_kinds(bidders)[whose]
    value = programme.final.max(axis=1) - growth
    best = _best_rows(whose, value, len(bidders.number))
    return Replies(value[best], best, whose, value, growth, programme)


def _best_rows(whose: Sizes, value: NDArray[np.float64], kinds: int) -> Rows:
    """The best row of each kind, the first of equals."""
    begin = np.searchsorted(whose, np.arange(kinds))
    best = np.flatnonzero(value == np.maximum.reduceat(value, begin)[whose])
    return np.asarray(best[np.searchsorted(whose[best], np.arange(kinds))])


def _ways_to_change(bidders: Bidders) -> Ways:
    """Each bid grows, where what it has is still there, or does not."""
    held, capacity, booted = bidders.held, bidders.capacity, bidders.booted or bidders.now
    every = np.arange(len(held))
    grow = np.flatnonzero((held <= capacity).all(axis=1))
    order = np.argsort(np.concatenate([grow, every]), kind="stable")

    def both(growing: Any, staying: Any) -> Any:
        return np.concatenate([growing[grow], staying])[order]

    return Ways(
        both(every, every),
        both(np.ones(len(held), dtype=bool), np.zeros(len(held), dtype=bool)),
        both(held, np.zeros_like(held)),
        both((capacity - held) * bidders.joins, np.minimum(held, capacity)),
        UsefulTime(
            both(booted.alone_s, bidders.now.alone_s),
            both(booted.end_s, bidders.now.end_s),
            both(bidders.now.power, bidders.now.power),
        ),
        both(bidders.before, np.zeros(len(held))),
    )


@dataclass(frozen=True)
class Replies:
    """What each kind of trainer would choose at some prices.

    Attributes:
        value: what the best choice is worth, prices paid, shape (kinds,).
        best: the row of the best choice, likewise.
        whose: the kind of trainer whose each row of the programme is.
        by_way: what the best choice of each row is worth, shape (rows,).
        growth: what each row pays for growing, likewise.
        programme: how it was found.
    """

    value: NDArray[np.float64]
    best: Rows
    whose: Sizes
    by_way: NDArray[np.float64]
    growth: NDArray[np.float64]
    programme: Programme

    @cached_property
    def counts(self) -> Counts:
        """The best choice of each kind, shape (kinds, classes)."""
        return self.programme.best_of(self.best)

    def layout_within(self, bidders: Bidders, slack: float) -> Layout:
        """Of the ways to change that are worth at most so much less than their kind's best."""
        rows = np.flatnonzero(self.by_way >= self.value[self.whose] - slack)
        return lay_out(bidders, self.programme.ways.of(rows))

    def nearly_best(self, bidders: Bidders, limits: Limits, slack: float, most: int) -> list[Choices] | None:
        """All choices of each kind that are worth at most so much less than its best; None: there are too many.

        Args:
            bidders: the trainers.
            limits: for which the prices are.
            slack: how much less.
            most: how many choices may be looked at together.
        """
        ways = self.programme.ways
        groups = bidders.groups
        grows = groups[limits.fewest_growing == bidders.in_group].any(axis=0)
        stays = groups[limits.most_growing == 0].any(axis=0)
        may = ~np.where(ways.grows, stays[self.whose], grows[self.whose])
        may &= np.isfinite(self.value)[self.whose]
        least = np.where(may, self.value[self.whose] - slack + self.growth, np.inf)
        found = self.programme.worth_at_least(least, most)
        if found is None:
            return None
        rows, counts, value = found
        whose = self.whose[rows]
        loss = np.maximum(self.value[whose] - value + self.growth[rows], 0.0)
        return [Choices(counts[whose == kind], loss[whose == kind]) for kind in range(len(self.value))]
