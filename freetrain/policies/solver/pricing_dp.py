"""The dynamic programme of the pricing problem: the best columns of many choices at some prices.

The value of a column is a sum over the classes of terms that depend on the nodes of all classes up to each
(``column_generation.py``). So the state after a class is the number of nodes so far. Classes that leave together
have one end together, after the last of them, whose cost is charged once if any of their nodes are taken.
Between such classes there are therefore two best values for each state: without and with nodes of theirs.
A choice takes no node of classes that it does not cover.

What does not depend on prices is prepared once (``DPStructure``), since prices change some hundred times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import UsefulTime
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes

Rows = NDArray[np.int64]
DualPrices = NDArray[np.float64]
"""Dual price of a node of each class, shape (classes,)."""

_BIG_M_FACTOR = 1e5
"""Big M relative to the largest value of any time: more than can be gained or paid."""
_MAX_KEPT = 1_000_000
"""Above this number of rows × positions the lookup table is computed each time, to bound memory."""
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChangeModes:
    """Modes of change: each choice grows (keeps all nodes and gets more), or does not (gets no new node).

    A row is one mode of one choice.

    Attributes:
        choices: the choice of each row, ascending.
        grows: whether the row is that of growing.
        required: nodes of each class that must be taken, shape (rows, classes).
        optional: nodes of each class that may be taken beyond these, likewise.
        before: worth of the held nodes until ``use`` begins, shape (rows,).
    """

    choices: Rows
    grows: NDArray[np.bool_]
    required: Counts
    optional: Counts
    use: UsefulTime
    before: NDArray[np.float64]

    def of(self, rows: Rows) -> ChangeModes:
        """The modes of some rows."""
        return ChangeModes(*(getattr(self, own.name)[rows] for own in fields(self)))


@dataclass(frozen=True)
class _SolvedTime:
    """Classes that leave at one time, in a solved programme.

    Attributes:
        places: these classes, as ``TrainerTypes.places``.
        before: best value before these classes by state, shape (rows, states).
        gain: worth of their time by the state after them, the required nodes paid, likewise.
        loss: cost of their end by the state after them, if any of their nodes are taken, likewise.
        taken: for each place, the best value before it with nodes of earlier places, the loss not charged,
            likewise.
    """

    places: Sequence[Rows]
    before: Table
    gain: Table
    loss: Table
    taken: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class PricingDP:
    """A solved dynamic programme over the classes; a state is a number of nodes beyond the required ones.

    Attributes:
        paid: cost of a node of each class for each row, its price and its electricity, shape (rows, classes).
        ends: the times at which nodes leave, the last one first.
        final: best value after all classes by state, the change paid, shape (rows, states).
        change: cost of the change by last state, shape (rows, states).
    """

    paid: Table
    modes: ChangeModes
    ends: list[_SolvedTime]
    final: Table
    change: Table

    def best_columns(self, rows: Rows) -> Counts:
        """The best column of each of these rows, by backtracking."""
        every, state = np.arange(len(rows)), self.final[rows].argmax(axis=1)
        counts = self.modes.required[rows]
        for end in reversed(self.ends):
            loss = end.loss[rows, state]
            for place in reversed(range(len(end.places))):
                more = self._steps(end, place, rows, state, loss).argmax(axis=1)
                counts[every, end.places[place][rows]] += more
                state, loss = state - more, np.where(more > 0, 0.0, loss)
        return counts

    def _steps(self, end: _SolvedTime, place: int, rows: Rows, state: Rows, loss: NDArray[np.float64]) -> Table:
        """Value of reaching each state with 0, 1, 2 … optional nodes of a class; -inf where that is impossible.

        ``loss`` is charged if any nodes of this class or of earlier ones with the same end are taken.
        """
        column, before, taken = end.places[place][rows], end.before, end.taken[place] if place else None
        optional = np.minimum(self.modes.optional[rows, column], state)
        more = np.arange(int(optional.max(initial=0)) + 1)
        earlier = state[:, None] - more
        at = rows[:, None], np.maximum(earlier, 0)
        either = before[at] if taken is None else np.maximum(before[at], taken[at])
        value = either - self.paid[rows, column][:, None] * more
        value[:, 1:] -= loss[:, None]
        if taken is not None:
            value[:, 0] = np.maximum(before[rows, state], taken[rows, state] - loss)
        return np.where(more <= optional[:, None], value, -np.inf)

    def columns_worth_at_least(
        self, least: NDArray[np.float64], max_columns: int
    ) -> tuple[Rows, Counts, DualPrices] | None:
        """Row, nodes and value, prices paid, of all columns worth at least so much by row.

        None: there are more partial columns than may be kept at a time.
        """
        rows, state = np.nonzero(self.final >= least[:, None])
        after, width = -self.change[rows, state], self.final.shape[1] + 1
        counts = self.modes.required[rows]
        for end in reversed(self.ends):
            after, entered = after + end.gain[rows, state], state + 1  # 0: the loss is charged already
            for place in reversed(range(len(end.places))):
                # What leads to a state does not depend on what comes after it: each state is expanded once.
                # Row, state and entry as one number: unique over three columns would compare triples.
                key, same = np.unique((rows * width + state) * width + entered, return_inverse=True)
                from_state, from_entered = key // width % width, key % width
                from_row = key // width**2
                loss = np.where(from_entered, end.loss[from_row, from_entered - 1], 0.0)
                worth = self._steps(end, place, from_row, from_state, loss)
                missing, needed = least[rows] - after, np.full(len(key), np.inf)
                np.minimum.at(needed, same, missing)
                origin, number = np.nonzero(worth >= needed[:, None])
                steps = np.bincount(origin, minlength=len(key))
                at = np.repeat(np.arange(len(rows)), steps[same])
                if len(at) > max_columns:
                    return None
                begin = (np.cumsum(steps) - steps)[same] - (np.cumsum(steps[same]) - steps[same])
                step = np.arange(len(at)) + begin[at]
                good = worth[origin[step], number[step]] >= missing[at]
                at, step = at[good], step[good]
                more, source = number[step], origin[step]
                rows, counts = rows[at], counts[at]
                column = end.places[place][rows]
                counts[np.arange(len(at)), column] += more
                after = after[at] - self.paid[rows, column] * more - np.where(more, loss[source], 0.0)
                state, entered = state[at] - more, np.where(more, 0, entered[at])
        return rows, counts, after + self.modes.before[rows]


@dataclass(frozen=True)
class _TimeData:
    """Classes that leave at one time, as far as it does not depend on prices.

    Attributes:
        places: these classes, as ``TrainerTypes.places``.
        useful: worth of their time by the state after them, shape (rows, states).
        loss: cost of their end in any case, because nodes of theirs are required, likewise.
        may_lose: cost of their end only if any of their nodes are taken, likewise.
        must: whether nodes of theirs are required, shape (rows,).
        more: for each place, rows with optional nodes of it, and a window over as many states as these are.
        sizes: number of nodes in each state after them, likewise.
    """

    places: list[Rows]
    within: slice
    useful: Table
    loss: Table
    may_lose: Table
    must: NDArray[np.bool_]
    more: list[tuple[Rows, SlidingMaximum]]
    sizes: Counts


@dataclass(frozen=True)
class DPStructure:
    """A dynamic programme without its prices and limits.

    Attributes:
        times: the times at which nodes leave, the last one first.
        change: cost of the change by last state, shape (rows, states).
        big_m: more than can be gained or paid.
    """

    modes: ChangeModes
    times: list[_TimeData]
    change: Table
    big_m: float


def prepare_dp(trainers: TrainerTypes, modes: ChangeModes) -> DPStructure:
    """The structure of the dynamic programme of these rows."""
    choices, required, optional, use = modes.choices, modes.required, modes.optional, modes.use
    rows = np.arange(len(choices))
    states = min(int(optional.sum(axis=1).max(initial=0)) + 1, trainers.worth.shape[1])
    worth = trainers.worth[choices]
    times, kept, first = [], np.cumsum(required, axis=1), 0
    for last, places in zip(trainers.last_of_life.tolist(), trainers.places, strict=True):
        columns = [place[choices] for place in places]
        must = (required[:, first : last + 1].sum(axis=1) > 0)[:, None]
        worth_now = _shifted(worth, kept[:, last], states, 0.0)
        loss = use.end_s[:, last, None] * worth_now
        times.append(
            _TimeData(
                columns,
                slice(first, last + 1),
                use.alone_s[:, last, None] * worth_now,
                np.where(must, loss, 0.0),
                np.where(must, 0.0, loss),
                must[:, 0],
                [_more(optional[rows, column], states) for column in columns],
                kept[:, last, None] + np.arange(states),
            )
        )
        first = last + 1
    change = _shifted(trainers.switching[choices], required.sum(axis=1), states, np.inf)
    change[modes.grows, 0] = np.inf  # a trainer that takes only what it has does not grow
    largest = max(float(np.abs(time.useful).max(initial=0.0)) for time in times)
    return DPStructure(modes, times, change, _BIG_M_FACTOR * (largest or 1.0))


def solve_dp(structure: DPStructure, prices: DualPrices, limits: BranchLimits) -> PricingDP:
    """Solve the programme at these prices, within the limits."""
    modes, (rows, states) = structure.modes, structure.change.shape
    every, best = np.arange(rows), np.full((rows, states), -np.inf)
    best[:, 0] = modes.before
    paid = prices + modes.use.power
    ends, paid_for = [], modes.required * paid
    for time, data in enumerate(structure.times):
        gain = data.useful - paid_for[:, data.within].sum(axis=1)[:, None] - data.loss
        loss = data.may_lose
        if limits.ends[:, time].any():
            gain, loss = _with_ends(data, limits.ends[modes.choices, time], gain, structure.big_m)
        end = _SolvedTime(data.places, best, gain, loss)
        taken = best
        for place, column in enumerate(end.places):
            end.taken.append(taken)
            start = np.maximum(best, taken) if place else best
            with_more = _best_with_more(start, paid[every, column], *data.more[place])
            taken = np.maximum(taken, with_more) if place else with_more
        best = np.maximum(best, taken - end.loss) + end.gain
        min_nodes = limits.min_nodes[modes.choices, time, None]
        max_nodes = limits.max_nodes[modes.choices, time, None]
        is_outside = (data.sizes < min_nodes) | (data.sizes > max_nodes)
        best[is_outside | (best < -structure.big_m / 2)] = -np.inf
        ends.append(end)
    return PricingDP(paid, modes, ends, best - structure.change, structure.change)


def _with_ends(time: _TimeData, ends: Sizes, gain: Table, big_m: float) -> tuple[Table, Table]:
    """The gain and the loss where a branch asks each row to take some nodes (1), none (-1) or either (0)."""
    # A row that has to take some loses big M, and gets it back for taking them.
    none, some = (ends < 0)[:, None], ((ends > 0) & ~time.must)[:, None]
    gain = np.where(none & time.must[:, None], -np.inf, gain - big_m * some)
    return gain, np.where(none, np.inf, time.may_lose - big_m * some)


def _shifted(table: Table, offset: Sizes, states: int, beyond: float) -> Table:
    """The table by state instead of size; ``beyond`` where a state lies outside of it."""
    size = offset[:, None] + np.arange(states)
    last = table.shape[1] - 1
    return np.where(size <= last, np.take_along_axis(table, np.minimum(size, last), axis=1), beyond)


def _more(optional: Sizes, states: int) -> tuple[Rows, SlidingMaximum]:
    some = np.flatnonzero(optional)
    return some, SlidingMaximum(np.minimum(optional[some], states - 1), states)


def _best_with_more(best: Table, paid_each: NDArray[np.float64], some: Rows, windows: SlidingMaximum) -> Table:
    """For each state the best value of an earlier one from which one or more nodes of a class lead to it.

    Every node is paid. The class is the one that each row may have at this place; ``some`` and ``windows`` say
    which rows may take how many of it.
    """
    found = np.full_like(best, -np.inf)
    if some.size:
        paid = paid_each[some, None] * np.arange(best.shape[1])
        found[some] = windows.max_before(best[some] + paid) - paid
    return found


class SlidingMaximum:
    """The maximum over a window before each position, with a width of its own for each row (a sparse table).

    Two overlapping windows whose width is the same power of two make a window of any width. The windows of all
    rows and all powers of two stand in one table.

    Args:
        widths: number of positions before each one that count, at least 1, shape (rows,).
        positions: number of positions of each row.
    """

    def __init__(self, widths: Sizes, positions: int) -> None:
        is_wide = widths >= positions - 1
        self._wide, self._narrow = np.flatnonzero(is_wide), np.flatnonzero(~is_wide)
        self._widths, self._positions = widths[self._narrow], positions
        # Exact, where a logarithm may round to the wrong power.
        self._power = np.frexp(self._widths)[1].astype(np.int64) - 1
        is_kept = self._narrow.size * positions <= _MAX_KEPT
        self._kept = self._ends() if is_kept else None

    def max_before(self, table: Table) -> Table:
        """For each position the largest number in the window before it; -inf where that is empty."""
        largest = np.full(table.shape, -np.inf)
        if self._wide.size:
            largest[self._wide, 1:] = np.maximum.accumulate(table[self._wide], axis=1)[:, :-1]
        if self._narrow.size:
            windows = self._windows(table).ravel()
            early, late = self._kept or self._ends()
            largest[self._narrow] = np.maximum(windows.take(early), windows.take(late))
        return largest

    def _windows(self, table: Table) -> Table:
        """For each power of two and narrow row, the largest number in the window that ends at each position."""
        # Position 0 stands for an empty window; the positions of the table follow.
        windows = np.empty((int(self._power.max()) + 1, self._narrow.size, self._positions + 1))
        windows[0, :, 0] = -np.inf
        windows[0, :, 1:] = table[self._narrow]
        for power in range(1, len(windows)):
            half, width = windows[power - 1], 2 ** (power - 1)
            windows[power, :, :width] = half[:, :width]
            np.maximum(half[:, width:], half[:, :-width], out=windows[power, :, width:])
        return windows

    def _ends(self) -> tuple[Positions, Positions]:
        """Indices of the two windows that make the one before each position, shape (rows, positions)."""
        rows, position = np.arange(self._narrow.size), np.arange(self._positions)
        begin = ((self._power * rows.size + rows) * (self._positions + 1))[:, None]
        back = (self._widths - 2**self._power)[:, None]
        return begin + position, begin + np.maximum(position - back, 0)
