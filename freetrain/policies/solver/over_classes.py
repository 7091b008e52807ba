"""A dynamic programme over the classes: what each of many bids would take of them at some prices.

What a bid is worth is a sum over the classes of terms of the nodes that it has of those before and of those up to
each (``replies.py``). A bid takes no node of the classes that do not belong to its choice. Classes that live
equally long have one end together, after the last of them: what it costs is lost once if any nodes of theirs were
taken. So between them there are two best values for each state, without and with such nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import UsefulTime
from freetrain.policies.solver.bidders import Bidders

Rows = NDArray[np.int64]
Prices = NDArray[np.float64]
"""Of one node of each class, shape (classes,)."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to change, of those who may.

    Attributes:
        rows: bids of who they are.
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


@dataclass(frozen=True)
class _End:
    """The classes that live equally long, in a solved programme; a state is as there.

    Attributes:
        columns: these classes.
        before: the best value before them by state, shape (rows, states).
        gain: what their time is worth by the state after them, the fewest nodes of them paid, likewise.
        loss: what taking more than none of them costs by the state after them, likewise.
        taken: before each of them the best value with nodes of those before it, the loss not charged, likewise.
    """

    columns: Sequence[int]
    before: Table
    gain: Table
    loss: Table
    taken: list[Table] = field(default_factory=list)


_Step = tuple[Table, Table | None, tuple[Table, Table] | None, float]
"""Of one class: the best value before its end, and before it with nodes of that end; gain and loss where it is the
last class of the end; the price."""


@dataclass(frozen=True)
class Programme:
    """A solved dynamic programme over the classes; a state is a number of nodes beyond the fewest possible.

    Attributes:
        prices: of the nodes.
        rows: the bids it is about.
        fewest: nodes that must be taken of each class, shape (rows, classes).
        most: nodes that may be taken beyond them, shape (rows, classes).
        ends: the times at which nodes leave, the last one first.
        final: the best value after all of them by state, the change paid, shape (rows, states).
        change: cost of the change by last state, shape (rows, states).
    """

    prices: Prices
    rows: Rows
    fewest: Counts
    most: Counts
    ends: list[_End]
    final: Table
    change: Table

    @cached_property
    def _steps(self) -> list[_Step]:
        """What is to be known of each class when one goes back over them."""
        return [
            (
                end.before,
                end.taken[place] if place else None,
                (end.gain, end.loss) if column == end.columns[-1] else None,
                float(self.prices[column]),
            )
            for end in self.ends
            for place, column in enumerate(end.columns)
        ]

    def best(self) -> tuple[NDArray[np.float64], Counts]:
        """Value and counts of the best choice of each bid."""
        rows, state = np.arange(len(self.rows)), self.final.argmax(axis=1)
        value = self.final[rows, state]
        counts = self.fewest.copy()
        for end in reversed(self.ends):
            loss = end.loss[rows, state]
            for place in reversed(range(len(end.columns))):
                more = self._best_step(end, place, rows, state, loss)
                counts[:, end.columns[place]] += more
                state, loss = state - more, np.where(more > 0, 0.0, loss)
        return value, counts

    def _best_step(self, end: _End, place: int, rows: Rows, state: Rows, loss: NDArray[np.float64]) -> Rows:
        """How many nodes of a class beyond the fewest lead best to the states, one for each row.

        ``loss`` is what it costs if any nodes of this class or of those before it with the same end are taken.
        """
        column, before, taken = end.columns[place], end.before, end.taken[place] if place else None
        more = np.arange(min(int(self.most[:, column].max(initial=0)), int(state.max(initial=0))) + 1)
        earlier = state[:, None] - more
        allowed = (earlier >= 0) & (more <= self.most[:, column][:, None])
        either = before if taken is None else np.maximum(before, taken)
        value = either[rows[:, None], np.maximum(earlier, 0)] - self.prices[column] * more
        value[:, 1:] -= loss[:, None]
        if taken is not None:
            value[:, 0] = np.maximum(before[rows, state], taken[rows, state] - loss)
        step: Rows = np.where(allowed, value, -np.inf).argmax(axis=1)
        return step

    def worth_at_least(self, row: int, least: float) -> Iterator[Counts]:
        """All choices of one row that are worth so much, prices paid."""
        last = len(self.prices) - 1
        for state in np.flatnonzero(self.final[row] >= least).tolist():
            yield from self._ways(row, last, state, -float(self.change[row, state]), 0.0, least)

    def _ways(
        self, row: int, column: int, state: int, after: float, loss: float, least: float
    ) -> Iterator[Counts]:
        """Choices of the classes up to this one that lead to the state; what follows them is worth ``after``.

        ``loss`` is as for the best step, where nodes leave after a later class.
        """
        if column < 0:
            yield self.fewest[row].copy()
            return
        before, taken, end, price = self._steps[column]
        if end is not None:
            gain, losses = end
            after, loss = after + float(gain[row, state]), float(losses[row, state])
        for more in range(min(state, int(self.most[row, column])) + 1):
            here, left = after - price * more - (loss if more else 0.0), 0.0 if more else loss
            best = float(before[row, state - more])
            if taken is not None:
                best = max(best, float(taken[row, state - more]) - left)
            if best + here >= least:
                for counts in self._ways(row, column - 1, state - more, here, left, least):
                    counts[column] += more
                    yield counts


def solve_programme(bidders: Bidders, prices: Prices, way: Way) -> Programme:
    """What each bid that may change in this way would take."""
    rows, fewest, most, use = way.rows, way.fewest, way.most, way.use
    states = min(int(most.sum(axis=1).max(initial=0)) + 1, bidders.worth.shape[1])
    worth = bidders.worth[rows]
    best = np.full((len(rows), states), -np.inf)
    best[:, 0] = way.before
    ends, offsets = [], np.cumsum(fewest, axis=1)
    for columns in _with_one_end(bidders.first_of_life):
        last = columns[-1]
        must = (fewest[:, columns].sum(axis=1) > 0)[:, None]
        worth_now = _shifted(worth, offsets[:, last], states, 0.0)
        loss = use.end_s[:, last, None] * worth_now
        paid = (fewest[:, columns] * prices[columns]).sum(axis=1)[:, None]
        gain = use.alone_s[:, last, None] * worth_now - paid - np.where(must, loss, 0.0)
        end = _End(columns, best, gain, np.where(must, 0.0, loss))
        taken = best
        for place, column in enumerate(columns):
            end.taken.append(taken)
            start = np.maximum(best, taken) if place else best
            with_more = _best_with_more(start, prices[column], most[:, column])
            taken = np.maximum(taken, with_more) if place else with_more
        best = np.maximum(best, taken - end.loss) + gain
        ends.append(end)
    change = _shifted(bidders.switching[rows], fewest.sum(axis=1), states, np.inf)
    return Programme(prices, rows, fewest, most, ends, best - change, change)


def _with_one_end(first_of_life: Sizes) -> Iterator[list[int]]:
    """The positions of the classes that live equally long."""
    for first in np.unique(first_of_life).tolist():
        yield np.flatnonzero(first_of_life == first).tolist()


def _shifted(table: Table, offset: Sizes, states: int, beyond: float) -> Table:
    """The table at the sizes that the states stand for."""
    size = offset[:, None] + np.arange(states)
    last = table.shape[1] - 1
    return np.where(size <= last, np.take_along_axis(table, np.minimum(size, last), axis=1), beyond)


def _best_with_more(best: Table, price: float, most: Sizes) -> Table:
    """For each state the best value of one from which 1 … ``most`` nodes more at this price lead to it."""
    states = best.shape[1]
    paid = price * np.arange(states)
    if most.all():
        return _largest_of_last(best + paid, np.minimum(most, states - 1)) - paid
    found, some = np.full_like(best, -np.inf), np.flatnonzero(most)
    if some.size:
        found[some] = _largest_of_last(best[some] + paid, np.minimum(most[some], states - 1)) - paid
    return found


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
