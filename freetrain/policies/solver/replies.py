r"""Replies: what each trainer would take of every class, if a node of each had a price.

With prices :math:`\lambda_c` the trainers do not compete any more. One with :math:`n_c` nodes of class *c*,
classes sorted by life, longest first, and :math:`N_c = n_0 + \dots + n_c`, is worth

.. math:: -\mathrm{switch}(N) + \sum_c \bigl(\Delta_c\,o(N_c) - [n_c > 0]\,\ell_c\,o(N_c) - \lambda_c n_c\bigr)

(``freetrain.core.value``; :math:`\ell_c` is what a known end costs where the class is taken back, else 0). Each
choice of a trainer is a row of two dynamic programmes over the classes (``over_classes.py``): nobody migrates, so
there is one for who keeps all nodes and may get more, and one for who gets none and may lose some. For the former
time counts from when new nodes have booted: what comes before is the same whatever it gets, and it gets no node
that leaves until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.over_classes import Prices, Programme, Rows, Way, solve_programme


def best_replies(bidders: Bidders, prices: Prices) -> Replies:
    """What each kind would choose."""
    bids, classes = bidders.held.shape
    value, counts = np.full(bids, -np.inf), np.zeros((bids, classes), dtype=np.int64)
    programmes = []
    for way in _ways_to_change(bidders):
        programme = solve_programme(bidders, prices, way)
        rows = way.rows
        found, chosen = programme.best()
        better = found > value[rows]
        value[rows[better]], counts[rows[better]] = found[better], chosen[better]
        programmes.append(programme)
    best = _best_bids(bidders.whose, value, len(bidders.number))
    return Replies(prices, value[best], counts[best], bidders.whose, tuple(programmes))


def _best_bids(whose: Sizes, value: NDArray[np.float64], kinds: int) -> Rows:
    """The best bid of each kind, the first of equals."""
    if len(whose) == kinds:
        return np.arange(kinds)
    begin = np.searchsorted(whose, np.arange(kinds))
    best = np.flatnonzero(value == np.maximum.reduceat(value, begin)[whose])
    return np.asarray(best[np.searchsorted(whose[best], np.arange(kinds))])


def _ways_to_change(bidders: Bidders) -> Iterator[Way]:
    """Growing, and shrinking."""
    grow = np.flatnonzero((bidders.held <= bidders.capacity).all(axis=1))
    held = bidders.held[grow]
    use = (bidders.booted or bidders.now).of(grow)
    yield Way(grow, held, (bidders.capacity - held) * bidders.joins[grow], use, bidders.before[grow])
    shrink = np.flatnonzero(bidders.held.any(axis=1))
    if shrink.size:
        held = bidders.held[shrink]
        most = np.minimum(held, bidders.capacity)
        yield Way(shrink, np.zeros_like(held), most, bidders.now.of(shrink), np.zeros(len(shrink)))


@dataclass(frozen=True)
class Replies:
    """What each kind of trainer would choose at some prices.

    Attributes:
        prices: of the nodes.
        value: what the best choice is worth, prices paid, shape (kinds,).
        counts: the best choice, shape (kinds, classes).
        whose: the kind of trainer whose each bid is.
        programmes: how it was found.
    """

    prices: Prices
    value: NDArray[np.float64]
    counts: Counts
    whose: Sizes
    programmes: tuple[Programme, ...]

    def nearly_best(self, kind: int, slack: float) -> Iterator[Counts]:
        """All choices of one kind that are worth at most so much less than its best."""
        for programme in self.programmes:
            for row in np.flatnonzero(self.whose[programme.rows] == kind).tolist():
                yield from programme.worth_at_least(row, float(self.value[kind]) - slack)
