"""A dynamic programme over the classes: what each of many bids would take of them at some prices.

What a bid is worth is a sum over the classes of terms of the nodes that it has of those before and of those up to
each (``replies.py``). A bid takes no node of the classes that do not belong to its choice. Classes that live
equally long have one end together, after the last of them: what it costs is lost once if any nodes of theirs were
taken. So between them there are two best values for each state, without and with such nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import UsefulTime
from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.limits import Limits
from freetrain.policies.solver.windows import Windows

Rows = NDArray[np.int64]
Prices = NDArray[np.float64]
"""Of one node of each class, shape (classes,)."""

_MUCH = 1e5
"""Times what the nodes' time until an end can be worth: more than can be gained or paid."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Ways to change, of those who may; a row is one way of one bid, to grow or not.

    Attributes:
        bids: whose each row is, ascending.
        grows: whether it gets more nodes than it has; otherwise it gets none that it has not.
        fewest: nodes of each class that must be taken, shape (rows, classes).
        most: how many more may be, likewise.
        use: of the nodes.
        before: what the nodes held are worth until that use begins, shape (rows,).
    """

    bids: Rows
    grows: NDArray[np.bool_]
    fewest: Counts
    most: Counts
    use: UsefulTime
    before: NDArray[np.float64]

    def of(self, rows: Rows) -> Ways:
        """Some of them."""
        return Ways(
            self.bids[rows],
            self.grows[rows],
            self.fewest[rows],
            self.most[rows],
            self.use.of(rows),
            self.before[rows],
        )


@dataclass(frozen=True)
class _End:
    """The classes that live equally long, in a solved programme; a state is as there.

    Attributes:
        places: these classes, as ``Bidders.places``.
        before: the best value before them by state, shape (rows, states).
        gain: what their time is worth by the state after them, the fewest nodes of them paid for, likewise.
        loss: what taking more than none of them costs by the state after them, likewise.
        taken: before each of them the best value with nodes of those before it, the loss not charged, likewise.
    """

    places: Sequence[Rows]
    before: Table
    gain: Table
    loss: Table
    taken: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class Programme:
    """A solved dynamic programme over the classes; a state is a number of nodes beyond the fewest possible.

    Attributes:
        paid: what each way pays for a node of each class, its price and its electricity, shape (rows, classes).
        ways: what it is about.
        ends: the times at which nodes leave, the last one first.
        final: the best value after all of them by state, the change paid, shape (rows, states).
        change: cost of the change by last state, shape (rows, states).
    """

    paid: Table
    ways: Ways
    ends: list[_End]
    final: Table
    change: Table

    def best_of(self, rows: Rows) -> Counts:
        """The best choice of some rows."""
        every, state = np.arange(len(rows)), self.final[rows].argmax(axis=1)
        counts = self.ways.fewest[rows]
        for end in reversed(self.ends):
            loss = end.loss[rows, state]
            for place in reversed(range(len(end.places))):
                more = self._steps(end, place, rows, state, loss).argmax(axis=1)
                counts[every, end.places[place][rows]] += more
                state, loss = state - more, np.where(more > 0, 0.0, loss)
        return counts

    def _steps(self, end: _End, place: int, rows: Rows, state: Rows, loss: NDArray[np.float64]) -> Table:
        """What it is worth to come to states with so many nodes of a class beyond the fewest; -inf: impossible.

        ``loss`` is what it costs if any nodes of this class or of those before it with the same end are taken.
        """
        column, before, taken = end.places[place][rows], end.before, end.taken[place] if place else None
        most = np.minimum(self.ways.most[rows, column], state)
        more = np.arange(int(most.max(initial=0)) + 1)
        earlier = state[:, None] - more
        at = rows[:, None], np.maximum(earlier, 0)
        either = before[at] if taken is None else np.maximum(before[at], taken[at])
        value = either - self.paid[rows, column][:, None] * more
        value[:, 1:] -= loss[:, None]
        if taken is not None:
            value[:, 0] = np.maximum(before[rows, state], taken[rows, state] - loss)
        return np.where(more <= most[:, None], value, -np.inf)

    def worth_at_least(self, least: NDArray[np.float64], most: int) -> tuple[Rows, Counts, Prices] | None:
        """All choices that are worth so much, prices paid.

        Args:
            least: for each row.
            most: how many choices may be looked at together.

        Returns:
            Of which row each choice is, what is taken, and what it is worth; None: there are too many.
        """
        rows, state = np.nonzero(self.final >= least[:, None])
        after, width = -self.change[rows, state], self.final.shape[1] + 1
        counts = self.ways.fewest[rows]
        for end in reversed(self.ends):
            after, entered = after + end.gain[rows, state], state + 1  # 0: nothing is to be lost any more
            for place in reversed(range(len(end.places))):
                # The same steps lead to the same state, whatever comes after it.
                key, same = np.unique((rows * width + state) * width + entered, return_inverse=True)
                from_state, from_entered = key // width % width, key % width
                from_row = key // width**2
                loss = np.where(from_entered, end.loss[from_row, from_entered - 1], 0.0)
                worth = self._steps(end, place, from_row, from_state, loss)
                missing, needed = least[rows] - after, np.full(len(key), np.inf)
                np.minimum.at(needed, same, missing)
                whose, number = np.nonzero(worth >= needed[:, None])
                ways = np.bincount(whose, minlength=len(key))
                at = np.repeat(np.arange(len(rows)), ways[same])
                if len(at) > most:
                    return None
                begin = (np.cumsum(ways) - ways)[same] - (np.cumsum(ways[same]) - ways[same])
                step = np.arange(len(at)) + begin[at]
                good = worth[whose[step], number[step]] >= missing[at]
                at, step = at[good], step[good]
                more, origin = number[step], whose[step]
                rows, counts = rows[at], counts[at]
                column = end.places[place][rows]
                counts[np.arange(len(at)), column] += more
                after = after[at] - self.paid[rows, column] * more - np.where(more, loss[origin], 0.0)
                state, entered = state[at] - more, np.where(more, 0, entered[at])
        return rows, counts, after + self.ways.before[rows]


@dataclass(frozen=True)
class _Time:
    """The classes that live equally long, as far as prices change nothing.

    Attributes:
        places: these classes, as ``Bidders.places``.
        within: which classes they are.
        useful: what their time is worth by the state after them, shape (rows, states).
        loss: what their end costs where it is paid for in any case, likewise.
        may_lose: what it costs where it is not, likewise.
        must: who has nodes of them in any case, shape (rows,).
        more: who may take any of each of them beyond the fewest, and how many.
        sizes: how many nodes the states after them are, likewise.
    """

    places: list[Rows]
    within: slice
    useful: Table
    loss: Table
    may_lose: Table
    must: NDArray[np.bool_]
    more: list[tuple[Rows, Windows]]
    sizes: Counts


@dataclass(frozen=True)
class Layout:
    """A dynamic programme but for its prices and limits, which change again and again.

    Attributes:
        ways: what it is about.
        times: the times at which nodes leave, the last one first.
        change: cost of the change by last state, shape (rows, states).
        much: more than can be gained or paid.
    """

    ways: Ways
    times: list[_Time]
    change: Table
    much: float


def lay_out(bidders: Bidders, ways: Ways) -> Layout:
    """Work out all that does not depend on prices."""
    bids, fewest, most, use = ways.bids, ways.fewest, ways.most, ways.use
    rows = np.arange(len(bids))
    states = min(int(most.sum(axis=1).max(initial=0)) + 1, bidders.worth.shape[1])
    worth = bidders.worth[bids]
    times, kept, first = [], np.cumsum(fewest, axis=1), 0
    for last, places in zip(bidders.last_of_life.tolist(), bidders.places, strict=True):
        its = [place[bids] for place in places]
        must = (fewest[:, first : last + 1].sum(axis=1) > 0)[:, None]
        worth_now = _shifted(worth, kept[:, last], states, 0.0)
        loss = use.end_s[:, last, None] * worth_now
        times.append(
            _Time(
                its,
                slice(first, last + 1),
                use.alone_s[:, last, None] * worth_now,
                np.where(must, loss, 0.0),
                np.where(must, 0.0, loss),
                must[:, 0],
                [_more(most[rows, column], states) for column in its],
                kept[:, last, None] + np.arange(states),
            )
        )
        first = last + 1
    change = _shifted(bidders.switching[bids], fewest.sum(axis=1), states, np.inf)
    change[ways.grows, 0] = np.inf  # who takes the fewest possible does not grow
    largest = max(float(np.abs(time.useful).max(initial=0.0)) for time in times)
    return Layout(ways, times, change, _MUCH * (largest or 1.0))


def solve_programme(layout: Layout, prices: Prices, limits: Limits | None = None) -> Programme:
    """What each bid would take in each way in which it may change, within the limits."""
    ways, (rows, states) = layout.ways, layout.change.shape
    every, best = np.arange(rows), np.full((rows, states), -np.inf)
    best[:, 0] = ways.before
    paid = prices + ways.use.power
    ends, paid_for = [], ways.fewest * paid
    for time, its in enumerate(layout.times):
        gain, loss = its.useful - paid_for[:, its.within].sum(axis=1)[:, None] - its.loss, its.may_lose
        if limits is not None and limits.ends[:, time].any():
            gain, loss = _with_ends(its, limits.ends[ways.bids, time], gain, layout.much)
        end = _End(its.places, best, gain, loss)
        taken = best
        for place, column in enumerate(end.places):
            end.taken.append(taken)
            start = np.maximum(best, taken) if place else best
            with_more = _best_with_more(start, paid[every, column], *its.more[place])
            taken = np.maximum(taken, with_more) if place else with_more
        best = np.maximum(best, taken - end.loss) + end.gain
        if limits is not None:
            fewest, most = limits.fewest[ways.bids, time, None], limits.most[ways.bids, time, None]
            best[(its.sizes < fewest) | (its.sizes > most) | (best < -layout.much / 2)] = -np.inf
        ends.append(end)
    return Programme(paid, ways, ends, best - layout.change, layout.change)


def _with_ends(time: _Time, ends: Sizes, gain: Table, much: float) -> tuple[Table, Table]:
    """The gain, and what taking any nodes costs, where each row takes some (1), none (-1) or either (0).

    Who ought to take some loses much, and gets it back for taking them.
    """
    none, some = (ends < 0)[:, None], ((ends > 0) & ~time.must)[:, None]
    gain = np.where(none & time.must[:, None], -np.inf, gain - much * some)
    return gain, np.where(none, np.inf, time.may_lose - much * some)


def _shifted(table: Table, offset: Sizes, states: int, beyond: float) -> Table:
    """The table at the sizes that the states stand for."""
    size = offset[:, None] + np.arange(states)
    last = table.shape[1] - 1
    return np.where(size <= last, np.take_along_axis(table, np.minimum(size, last), axis=1), beyond)


def _more(most: Sizes, states: int) -> tuple[Rows, Windows]:
    """The rows that may take any nodes more, and how many."""
    some = np.flatnonzero(most)
    return some, Windows(np.minimum(most[some], states - 1), states)


def _best_with_more(best: Table, paid_each: NDArray[np.float64], some: Rows, windows: Windows) -> Table:
    """For each state the best value of one from which some nodes more lead to it, each of them paid.

    What is paid, and who may take how many, is of the class that each row may have next.
    """
    found = np.full_like(best, -np.inf)
    if some.size:
        paid = paid_each[some, None] * np.arange(best.shape[1])
        found[some] = windows.largest_before(best[some] + paid) - paid
    return found
