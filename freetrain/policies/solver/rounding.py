r"""Rounding: integer plans out of the relaxation, by a flow.

What makes a decision hard is binary: of which choice a trainer's nodes are, whether it grows, and which ends it
pays for. A *change pattern* says all of that. The relaxation mixes columns, but mostly of the same pattern. With
the patterns fixed, what is left is

.. math:: \max \sum_j \sum_i g_{ji}(N_{ji}) \quad\text{with}\quad N_{ji} = N_{j,i-1} + \sum_{c \in i} n_{jc},
    \quad \sum_j n_{jc} \le \mathrm{capacity}_c,

where :math:`n_{jc}` are the nodes of class *c* for trainer *j*, and :math:`N_{ji}` its nodes that live until time
*i*, the last time first. That is a flow: nodes go from their class to the trainer at the time at which they leave,
and on to each earlier time. Between two times the value is piecewise linear. Where :math:`g_{ji}` is concave the
best flow is the optimum; elsewhere its concave hull stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf

import highspy
import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts
from freetrain.core.terms import Table
from freetrain.core.value import ends_of
from freetrain.policies.binary_programme import quiet_highs
from freetrain.policies.solver.column_generation import ColumnPlan, Master, Multiplicities
from freetrain.policies.solver.trainer_types import BranchLimits, TrainerTypes

INTEGRALITY = 1e-6
"""A weight within this distance of an integer counts as one."""

ColumnWeights = NDArray[np.float64]
"""Weight of each column in the relaxation, shape (columns,)."""
_STRAIGHT = 1e-9
"""Relative change of slope below which a curve counts as straight."""
Points = list[tuple[int, float]]
"""Sizes, ascending, with their values."""
NOWHERE = -1
"""Head of an arc that leads out of the flow."""


def integer_plans(
    master: Master, weights: ColumnWeights, limits: BranchLimits, left_s: Callable[[], float]
) -> Iterator[ColumnPlan]:
    """Integer plans in which each trainer has the pattern to which the relaxation gives most weight.

    First integer weights are kept and the other trainers are rounded; then, in the time that is left, all are.
    """
    # Fixing integer weights first keeps most of the relaxation, and the flow small.
    whole = np.floor(weights + INTEGRALITY).astype(np.int64)
    yield from _rounded_plans(master, weights, whole, limits, inf)
    if left_s() > 0:
        yield from _rounded_plans(master, weights, np.zeros_like(whole), limits, left_s())


def _rounded_plans(
    master: Master, weights: ColumnWeights, fixed: Multiplicities, limits: BranchLimits, time_limit_s: float
) -> Iterator[ColumnPlan]:
    """The plan that keeps the fixed columns and rounds the other trainers, if one is found."""
    trainers = master.trainers
    plan, type_ids, counts = master.plan_of(fixed), master.type_ids, master.counts
    mixed, rounded_types = weights - fixed, list[int]()
    patterns: list[ChangePattern] = []
    for type_id, fixed_counts in enumerate(plan):
        missing = int(trainers.number[type_id]) - len(fixed_counts)
        if missing:
            some = np.flatnonzero((type_ids == type_id) & (mixed > INTEGRALITY))
            patterns += _patterns(trainers, type_id, counts[some], mixed[some], missing)
            rounded_types += [type_id] * missing
    if not patterns:
        yield plan
        return
    rounded = round_by_flow(trainers.on(trainers.capacity - fixed @ counts), patterns, limits, time_limit_s)
    if rounded is not None:
        owner = np.array(rounded_types)
        yield [np.concatenate([counts, rounded[owner == type_id]]) for type_id, counts in enumerate(plan)]


def _patterns(
    trainers: TrainerTypes, type_id: int, columns: Counts, shares: ColumnWeights, number: int
) -> Iterator[ChangePattern]:
    share_of: dict[ChangePattern, float] = {}
    for column, share in zip(columns, shares.tolist(), strict=True):
        key = "change", type_id, column.tobytes()
        pattern = trainers.cached(key, partial(_find_pattern, trainers, type_id, column))
        share_of[pattern] = share_of.get(pattern, 0.0) + share
    for _ in range(number):
        pattern = max(share_of, key=share_of.__getitem__)
        share_of[pattern] -= 1.0
        yield pattern


def _find_pattern(trainers: TrainerTypes, type_id: int, column: Counts) -> ChangePattern:
    choice, first = trainers.choice_of(type_id, column), trainers.first_of_life
    ends = ends_of(column, first)[np.searchsorted(first, first, side="right") - 1]
    keeps = bool((column == trainers.held[choice]).all())
    return ChangePattern(choice, bool(column.sum() > trainers.held[choice].sum()), tuple(ends.tolist()), keeps)


@dataclass(frozen=True, slots=True)
class ChangePattern:
    """The pattern of a trainer's change.

    Attributes:
        choice: the choice of which it gets nodes.
        grows: whether it keeps all nodes and gets more; otherwise it gets no new node.
        ends: for each class, whether it may have nodes that leave at the same time.
        keeps: whether it keeps exactly what it has.
    """

    choice: int
    grows: bool
    ends: tuple[bool, ...]
    keeps: bool = False


def round_by_flow(
    trainers: TrainerTypes, patterns: Sequence[ChangePattern], limits: BranchLimits, time_limit_s: float = inf
) -> Counts | None:
    """Nodes of each class for trainers with these patterns, shape (patterns, classes); None: none are found."""
    required, optional = _nodes_of(trainers, patterns)
    free = trainers.capacity - required.sum(axis=0)
    if (free < 0).any():
        return None
    flow, node_arcs = Flow(), []
    demands: list[int] = []
    last = trainers.last_of_life
    times = [range(first, end) for first, end in zip(trainers.first_of_life[last], last + 1, strict=True)]
    allowed = optional.tolist()
    for row, (pattern, min_sizes, max_sizes) in enumerate(
        zip(patterns, *_sizes_of(trainers, patterns, required, optional, limits), strict=True)
    ):
        before, power = 0, trainers.now.power[pattern.choice].tolist()
        for time, (begin, end) in enumerate(zip(min_sizes, max_sizes, strict=True)):
            hull = _hull_of(trainers, pattern, time, begin, end)
            if not hull:
                return None
            place = len(free) + len(demands)
            for column in times[time]:
                if allowed[row][column]:
                    arc = flow.add(column, place, -power[column], allowed[row][column])
                    node_arcs.append((arc, row, column))
            following = place + 1 if time + 1 < len(times) else NOWHERE
            for (size, worth), (larger, more) in pairwise(hull):
                flow.add(place, following, (more - worth) / (larger - size), larger - size)
            smallest = hull[0][0]
            # The smallest size, less what is required, is a demand: so arcs begin at 0, and the matrix keeps its
            # form.
            demands.append(smallest - before - int(required[row, times[time]].sum()))
            before = smallest
    units = flow.solve(free, demands, time_limit_s)
    if units is None:
        return None
    arcs, rows, columns = np.array(node_arcs, dtype=np.int64).reshape(-1, 3).T
    required[rows, columns] += units[arcs]
    return required


def _nodes_of(trainers: TrainerTypes, patterns: Sequence[ChangePattern]) -> tuple[Counts, Counts]:
    choices, grows = [pattern.choice for pattern in patterns], np.array([[pattern.grows] for pattern in patterns])
    held, ends = trainers.held[choices], np.array([pattern.ends for pattern in patterns])
    more = (trainers.capacity - held).clip(0) * trainers.joins[choices]
    keeps = np.array([[pattern.keeps] for pattern in patterns])
    free = np.where(grows, more, np.minimum(held, trainers.capacity)) * ends
    return np.where(grows | keeps, held, 0), np.where(keeps, 0, free)


def _sizes_of(
    trainers: TrainerTypes,
    patterns: Sequence[ChangePattern],
    required: Counts,
    optional: Counts,
    limits: BranchLimits,
) -> tuple[list[list[int]], list[list[int]]]:
    choices = [pattern.choice for pattern in patterns]
    largest = [[int(np.flatnonzero(np.isfinite(_switching(trainers, pattern))).max())] for pattern in patterns]
    min_sizes = np.maximum(trainers.sizes_of(required), limits.min_nodes[choices])
    max_sizes = np.minimum(np.minimum(trainers.sizes_of(required + optional), largest), limits.max_nodes[choices])
    return min_sizes.tolist(), max_sizes.tolist()


def _hull_of(trainers: TrainerTypes, pattern: ChangePattern, time: int, begin: int, end: int) -> Points:
    """Concave hull of the value by size until a time; empty: no size is possible."""
    choice, last = pattern.choice, int(trainers.last_of_life[time])
    pays_end = pattern.ends[last]

    def compute() -> Points:
        use = trainers.booted if pattern.grows and trainers.booted is not None else trainers.now
        worth = trainers.worth[choice]
        bends = np.flatnonzero(np.abs(np.diff(worth, 2)) > _STRAIGHT * worth.max()) + 1
        useful_s = use.alone_s[choice, last] - pays_end * use.end_s[choice, last]
        is_last = time == len(trainers.last_of_life) - 1
        value = useful_s * worth - (_switching(trainers, pattern) if is_last else 0.0)
        sizes = sorted({begin, *bends[(bends > begin) & (bends < end)].tolist(), end}) if begin <= end else []
        return _hull([(size, float(value[size])) for size in sizes if np.isfinite(value[size])])

    return trainers.cached(("hull", choice, pattern.grows, pattern.keeps, time, pays_end, begin, end), compute)


def _switching(trainers: TrainerTypes, pattern: ChangePattern) -> Table:
    """Cost of the change to each size; a pattern that changes pays for it even at the held size."""

    def compute() -> Table:
        costs: Table = trainers.switching[pattern.choice].copy()
        held = int(trainers.held[pattern.choice].sum())
        possible = np.flatnonzero(np.isfinite(costs))
        others = possible[possible > held] if pattern.grows else possible[possible < held][::-1]
        if len(others) and not pattern.keeps and held < len(costs):
            costs[held] = costs[others[0]]
        return costs

    return trainers.cached(("switching", pattern.choice, pattern.grows, pattern.keeps), compute)


def _hull(points: Points) -> Points:
    """The points below no line between two others."""
    hull: Points = []
    for size, worth in points:
        while len(hull) > 1:
            (first, low), (middle, high) = hull[-2:]
            # Slopes compared without a division.
            if (high - low) * (size - middle) > (worth - high) * (middle - first):
                break
            hull.pop()
        hull.append((size, worth))
    return hull


class Flow:
    """A flow of largest gain over arcs between places, as a linear programme whose vertices are integer.

    A column of the programme has +1 where its arc begins and -1 where it ends, and nothing else. Such a matrix is
    totally unimodular, so with integer bounds the vertices are integer (Hoffman and Kruskal 1956).
    """

    def __init__(self) -> None:
        self._arcs: list[tuple[int, int]] = []
        self._gains: list[float] = []
        self._capacities: list[float] = []

    def add(self, tail: int, head: int, gain: float, capacity: int) -> int:
        """Add an arc; its number."""
        self._arcs.append((tail, head))
        self._gains.append(gain)
        self._capacities.append(capacity)
        return len(self._arcs) - 1

    def solve(self, supply: Counts, demands: Sequence[int], time_limit_s: float = inf) -> Counts | None:
        """Units on each arc; None: there is no such flow, or it takes longer.

        ``supply`` may leave each of the first places, ``demands`` have to stay at the others.
        """
        if not self._arcs:
            return None if any(demands) else np.zeros(0, np.int64)
        model, arcs = highspy.HighsLp(), np.array(self._arcs, dtype=np.int32)
        outflow = -np.array(demands, dtype=float)
        model.num_col_, model.num_row_ = len(arcs), len(supply) + len(outflow)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_, model.col_upper_ = self._gains, np.zeros(len(arcs)), self._capacities
        model.row_lower_ = np.concatenate([np.full(len(supply), -highspy.kHighsInf), outflow])
        model.row_upper_ = np.concatenate([supply, outflow])
        inside = arcs != NOWHERE
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kColwise
        matrix.start_ = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        matrix.index_, matrix.value_ = arcs[inside], np.broadcast_to([1.0, -1.0], arcs.shape)[inside]
        highs = quiet_highs()
        highs.setOptionValue("time_limit", time_limit_s)
        highs.setOptionValue("presolve", "off")  # it takes longer than the simplex method needs
        highs.passModel(model)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        # The vertex is integer but for the solver's tolerance.
        units: Counts = np.rint(highs.getSolution().col_value).astype(np.int64)
        return units
