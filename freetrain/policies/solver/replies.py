r"""Replies: what each trainer would take of every class, if a node of each had a price.

With prices :math:`\lambda_c` the trainers do not compete any more. One with :math:`n_c` nodes of class *c*,
classes sorted by life, longest first, and :math:`N_c = n_0 + \dots + n_c`, is worth

.. math:: -\mathrm{switch}(N) + \sum_c \bigl(\Delta_c\,o(N_c) - [n_c > 0]\,\ell_c\,o(N_c) - \lambda_c n_c\bigr)

(``freetrain.core.value``; :math:`\ell_c` is what a known end costs where the class is taken back, else 0). That is
a sum over the classes of terms of :math:`N_{c-1}` and :math:`N_c`: a dynamic programme over the classes, for all
trainers at once. Nobody migrates, so there are two of them: one for who keeps all nodes and may get more, and one
for who gets none and may lose some. For the former time counts from when new nodes have booted: what comes before
is the same whatever it gets, and it gets no node that leaves until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import UsefulTime
from freetrain.policies.solver.bidders import Bidders

Rows = NDArray[np.int64]
Prices = NDArray[np.float64]
"""Of one node of each class, shape (classes,)."""


def best_replies(bidders: Bidders, prices: Prices) -> Replies:
    """What each kind would choose."""
    kinds, classes = bidders.held.shape
    value, counts = np.full(kinds, -np.inf), np.zeros((kinds, classes), dtype=np.int64)
    programmes = []
    for way in _ways_to_change(bidders):
        programme = _solve(bidders, prices, way)
        rows = way.rows
        found, chosen = programme.best()
        better = found > value[rows]
        value[rows[better]], counts[rows[better]] = found[better], chosen[better]
        programmes.append(programme)
    return Replies(prices, value, counts, tuple(programmes))


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to change, of those who may.

    Attributes:
        rows: who they are.
        fewest: nodes of each class that must be taken, shape (rows, classes).
        most: how many more may be, likewise.
        use: of the nodes.
        before: what the nodes held are worth until that use begins, shape (rows,).
    """

    rows: Rows
    fewest: Counts
    most: Counts
    use: UsefulTime
    before: NDArray[np.float64]


def _ways_to_change(bidders: Bidders) -> Iterator[_Way]:
    """Growing, and shrinking."""
    grow = np.flatnonzero((bidders.held <= bidders.capacity).all(axis=1))
    held = bidders.held[grow]
    use = (bidders.booted or bidders.now).of(grow)
    yield _Way(grow, held, (bidders.capacity - held) * bidders.joins[grow], use, bidders.before[grow])
    shrink = np.flatnonzero(bidders.held.any(axis=1))
    if shrink.size:
        held = bidders.held[shrink]
        most = np.minimum(held, bidders.capacity)
        yield _Way(shrink, np.zeros_like(held), most, bidders.now.of(shrink), np.zeros(len(shrink)))


@dataclass(frozen=True)
class Replies:
    """What each kind of trainer would choose at some prices.

    Attributes:
        prices: of the nodes.
        value: what the best choice is worth, prices paid, shape (kinds,).
        counts: the best choice, shape (kinds, classes).
        programmes: how it was found.
    """

    prices: Prices
    value: NDArray[np.float64]
    counts: Counts
    programmes: tuple[_Programme, ...]

    def nearly_best(self, kind: int, slack: float) -> Iterator[Counts]:
        """All choices of one kind that are worth at most so much less than its best."""
        for programme in self.programmes:
            for row in np.flatnonzero(programme.rows == kind).tolist():
                yield from programme.worth_at_least(row, float(self.value[kind]) - slack)


@dataclass(frozen=True)
class _Programme:
    """A solved dynamic programme over the classes; a state is a number of nodes beyond the fewest possible.

    Attributes:
        prices: of the nodes.
        rows: the kinds it is about.
        fewest: nodes that must be taken of each class, shape (rows, classes).
        most: nodes that may be taken beyond them, shape (rows, classes).
        best_at: before the first class and after each one the best value by state, shape (rows, states) each.
        gains: what the time of each class is worth by the state after it, the fewest nodes of the class paid,
            shape (rows, states) each.
        losses: what taking more than none of the class costs by the state after it, likewise.
        change: cost of the change by last state, shape (rows, states).
    """

    prices: Prices
    rows: Rows
    fewest: Counts
    most: Counts
    best_at: list[Table]
    gains: list[Table]
    losses: list[Table]
    change: Table

    def best(self) -> tuple[NDArray[np.float64], Counts]:
        """Value and counts of the best choice of each kind."""
        final = self.best_at[-1] - self.change
        rows, state = np.arange(len(self.rows)), final.argmax(axis=1)
        value = final[rows, state]
        counts = self.fewest.copy()
        for column in reversed(range(len(self.prices))):
            more = self._best_step(column, rows, state)
            counts[:, column] += more
            state = state - more
        return value, counts

    def _best_step(self, column: int, rows: Rows, state: Rows) -> Rows:
        """How many nodes of a class beyond the fewest lead best to the states, one for each row."""
        more = np.arange(min(int(self.most[:, column].max(initial=0)), int(state.max(initial=0))) + 1)
        before = state[:, None] - more
        allowed = (before >= 0) & (more <= self.most[:, column][:, None])
        value = self.best_at[column][rows[:, None], np.maximum(before, 0)] - self.prices[column] * more
        value[:, 1:] -= self.losses[column][rows, state][:, None]
        step: Rows = np.where(allowed, value, -np.inf).argmax(axis=1)
        return step

    def worth_at_least(self, row: int, least: float) -> Iterator[Counts]:
        """All choices of one row that are worth so much, prices paid."""
        final = self.best_at[-1][row] - self.change[row]
        for state in np.flatnonzero(final >= least).tolist():
            yield from self._ways(row, len(self.prices) - 1, state, -float(self.change[row, state]), least)

    def _ways(self, row: int, column: int, state: int, after: float, least: float) -> Iterator[Counts]:
        """Choices of the classes up to this one that lead to the state; what follows them is worth ``after``."""
        if column < 0:
            yield self.fewest[row].copy()
            return
        after += float(self.gains[column][row, state])
        loss, price = float(self.losses[column][row, state]), float(self.prices[column])
        for more in range(min(state, int(self.most[row, column])) + 1):
            here = after - price * more - (loss if more else 0.0)
            if self.best_at[column][row, state - more] + here >= least:
                for counts in self._ways(row, column - 1, state - more, here, least):
                    counts[column] += more
                    yield counts


def _solve(bidders: Bidders, prices: Prices, way: _Way) -> _Programme:
    rows, fewest, most, use = way.rows, way.fewest, way.most, way.use
    states = min(int(most.sum(axis=1).max(initial=0)) + 1, bidders.worth.shape[1])
    worth = bidders.worth[rows]
    best = np.full((len(rows), states), -np.inf)
    best[:, 0] = way.before
    best_at, gains, losses = [best], [], []
    for column, offset in enumerate(np.cumsum(fewest, axis=1).T):
        worth_now = _shifted(worth, offset, states, 0.0)
        loss = use.end_s[:, column, None] * worth_now
        must = fewest[:, column][:, None]
        gain = use.alone_s[:, column, None] * worth_now - prices[column] * must - np.where(must > 0, loss, 0.0)
        loss = np.where(must > 0, 0.0, loss)
        best = np.maximum(best, _best_with_more(best, prices[column], most[:, column]) - loss) + gain
        best_at.append(best)
        gains.append(gain)
        losses.append(loss)
    change = _shifted(bidders.switching[rows], fewest.sum(axis=1), states, np.inf)
    return _Programme(prices, rows, fewest, most, best_at, gains, losses, change)


def _shifted(table: Table, offset: Sizes, states: int, beyond: float) -> Table:
    """The table at the sizes that the states stand for."""
    size = offset[:, None] + np.arange(states)
    last = table.shape[1] - 1
    return np.where(size <= last, np.take_along_axis(table, np.minimum(size, last), axis=1), beyond)


def _best_with_more(best: Table, price: float, most: Sizes) -> Table:
    """For each state the best value of one from which 1 … ``most`` nodes more at this price lead to it."""
    states = best.shape[1]
    paid = price * np.arange(states)
    return _largest_of_last(best + paid, np.minimum(most, states - 1)) - paid


def _largest_of_last(table: Table, widths: Sizes) -> Table:
    """For each position the largest number at the ``widths`` positions before it, a width for each row.

    A window of any width is made of windows that are powers of two wide.
    """
    rows, positions = table.shape
    nothing = np.full((rows, positions + 1), -np.inf)
    largest = nothing[:, 1:].copy()
    if (widths >= positions - 1).all():
        largest[:, 1:] = np.maximum.accumulate(table, axis=1)[:, :-1]
        return largest
    window, width, begin, left = table, 1, np.ones(rows, dtype=np.int64), widths.copy()
    while left.any():
        part = np.flatnonzero(left & 1)
        at = np.arange(positions) - begin[part][:, None]
        reached = np.where(at >= 0, np.take_along_axis(window[part], np.maximum(at, 0), axis=1), -np.inf)
        largest[part] = np.maximum(largest[part], reached)
        begin[part] += width
        window = np.maximum(window, np.concatenate([nothing[:, :width], window], axis=1)[:, :positions])
        left, width = left >> 1, 2 * width
    return largest
