r"""The optimum by the published node-level model, written afresh for HiGHS, with two mends.

One binary for every trainer and node says who gets it; what a trainer makes of its nodes is piecewise linear
in their number. HiGHS knows no SOS2 sets, so binaries choose the segment of the curve.

The mends, where the published rows are wrong:

- *no migration*: the published constant of N + 1 nodes forbids every change by more than (N + 1) / 2 nodes.
  A trainer that grows by k nodes has 2k between the two sides of the row, so the constant must be 2N.
- *minimum*: the same constant in Nⱼ ≥ minⱼ − M·offⱼ makes a problem infeasible as soon as one trainer's minimum
  lies above it. Here the minimum itself is the constant.

Also, the curves always start at nothing for 0 nodes: the published rows give a trainer whose first measured
point lies above 0 that many nodes in any case. The maximum needs no switch of its own.

Written for problems in which no node is due back: the published model knows none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import highspy
import numpy as np

from freetrain.core.objectives import worth_per_s
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer

INFINITY = highspy.kHighsInf

Terms = list[tuple[int, float]]
"""Columns and their factors in a row."""


class Answer(NamedTuple):
    """What the published model says.

    Attributes:
        objective: value of the placement; -inf where the time limit came before any placement.
        placement: trainer → nodes.
        proven: whether it is known that no placement is worth more.
    """

    objective: float
    placement: dict[str, tuple[str, ...]]
    proven: bool


def solve_published(problem: Problem, time_limit_s: float = 60.0, relative_gap: float = 0.0) -> Answer:
    """Solve the published node-level model, on one thread.

    Raises:
        ValueError: a node is due back at some time.
    """
    if any(node.until_s is not None for node in problem.nodes):
        raise ValueError("the published model knows no time at which a node is due back")
    programme = _Programme()
    jobs = [_add_columns(programme, problem, trainer) for trainer in problem.trainers]
    _one_owner(programme, jobs, len(problem.nodes))
    for job in jobs:
        _changed_nodes(programme, job)
        _minimum(programme, job)
        _maximum(programme, job)
        _no_migration(programme, job)
        _scalability(programme, job)
        _direction(programme, job)
    values, proven = programme.maximise(time_limit_s, relative_gap)
    if values is None:
        return Answer(-math.inf, {}, proven)
    given = {job.trainer.id: [bool(values[column] > 0.5) for column in job.gets] for job in jobs}
    return Answer(
        sum(_value(problem, job, sum(given[job.trainer.id])) for job in jobs),
        {
            trainer: tuple(node.name for node, gets in zip(problem.nodes, row, strict=True) if gets)
            for trainer, row in given.items()
            if any(row)
        },
        proven,
    )


@dataclass
class _Programme:
    """Columns and rows, gathered until HiGHS gets them all in one go."""

    gains: list[float] = field(default_factory=list)
    binary: list[bool] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def column(self, gain: float = 0.0, *, binary: bool = True) -> int:
        """Add a column between 0 and 1."""
        self.gains.append(gain)
        self.binary.append(binary)
        return len(self.gains) - 1

    def row(self, terms: Iterable[tuple[int, float]], *, least: float = -INFINITY, most: float = INFINITY) -> None:
        """Add the row least ≤ Σ factor · column ≤ most."""
        for column, factor in terms:
            self.columns.append(column)
            self.factors.append(factor)
        self.starts.append(len(self.columns))
        self.lower.append(least)
        self.upper.append(most)

    def maximise(self, time_limit_s: float, relative_gap: float) -> tuple[Sequence[float] | None, bool]:
        """Best values found for the columns (None: none found), and whether they are proven optimal."""
        solver = highspy.Highs()
        for option, setting in {
            "output_flag": False,
            "threads": 1,
            "time_limit": time_limit_s,
            "mip_rel_gap": relative_gap,
            "mip_abs_gap": 0.0,
        }.items():
            solver.setOptionValue(option, setting)
        solver.passModel(self._as_lp())
        solver.run()
        status = solver.getModelStatus()
        if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
            raise RuntimeError(f"HiGHS says {solver.modelStatusToString(status)}")
        found = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        proven = status == highspy.HighsModelStatus.kOptimal
        return (list(solver.getSolution().col_value) if found else None), proven

    def _as_lp(self) -> highspy.HighsLp:
        programme = highspy.HighsLp()
        programme.sense_ = highspy.ObjSense.kMaximize
        programme.num_col_ = len(self.gains)
        programme.num_row_ = len(self.lower)
        # Samples/s times seconds go into the millions, HiGHS' tolerances are absolute.
        scale = max((abs(gain) for gain in self.gains), default=0.0) or 1.0
        programme.col_cost_ = np.array(self.gains, dtype=float) / scale
        programme.col_lower_ = np.zeros(len(self.gains))
        programme.col_upper_ = np.ones(len(self.gains))
        programme.row_lower_ = np.array(self.lower, dtype=float)
        programme.row_upper_ = np.array(self.upper, dtype=float)
        programme.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        programme.a_matrix_.start_ = np.array(self.starts, dtype=np.int32)
        programme.a_matrix_.index_ = np.array(self.columns, dtype=np.int32)
        programme.a_matrix_.value_ = np.array(self.factors, dtype=float)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        programme.integrality_ = [kinds[binary] for binary in self.binary]
        return programme


@dataclass(frozen=True)
class _Job:
    """A trainer and its columns.

    Attributes:
        trainer: the trainer.
        worth: its worth per second on 0 … ``most_nodes`` nodes.
        holds: for each node, 1 if it has the node now.
        corners: sizes between which its worth is linear, 0 first.
        gets: for each node, 1 if it gets the node.
        changes: for each node, 1 if it gains or loses the node.
        off: 1 if it gets nothing.
        shrinks_at_most: 1 if it gains no node, 0 if it loses none.
        grows: 1 if it gets more nodes than it has.
        shrinks: 1 if it gets fewer.
        shares: for each corner, how far its size lies there.
    """

    trainer: Trainer
    worth: np.ndarray
    holds: list[int]
    corners: list[int]
    gets: list[int]
    changes: list[int]
    off: int
    shrinks_at_most: int
    grows: int
    shrinks: int
    shares: list[int]

    @property
    def held_nodes(self) -> int:
        """Nodes it has now (C)."""
        return sum(self.holds)

    @property
    def size(self) -> Terms:
        """Nodes it gets, N = Σ gets."""
        return [(column, 1.0) for column in self.gets]


def _add_columns(programme: _Programme, problem: Problem, trainer: Trainer) -> _Job:
    """The columns, with the objective T·Σ o(cornerᵢ)·shareᵢ − o(C)·(up·grows + down·shrinks).

    Where o(C) is 0, a start is charged at the new worth: (T − start)·Σ o(cornerᵢ)·shareᵢ.
    """
    worth = worth_per_s(trainer, problem.objective)
    holds = [int(node.holder == trainer.id) for node in problem.nodes]
    now = _worth_now(trainer, worth, sum(holds))
    useful_s = problem.horizon_s - (trainer.start_s if now == 0 else 0.0)
    corners = _corners(trainer, worth)
    return _Job(
        trainer=trainer,
        worth=worth,
        holds=holds,
        corners=corners,
        gets=[programme.column() for _ in holds],
        changes=[programme.column() for _ in holds],
        off=programme.column(),
        shrinks_at_most=programme.column(),
        grows=programme.column(-problem.changes * trainer.scale_up_s * now),
        shrinks=programme.column(-problem.changes * trainer.scale_down_s * now),
        shares=[programme.column(useful_s * float(worth[corner]), binary=False) for corner in corners],
    )


def _worth_now(trainer: Trainer, worth: np.ndarray, held_nodes: int) -> float:
    if held_nodes < trainer.min_nodes or not trainer.can_run:
        return 0.0
    return float(worth[min(held_nodes, trainer.most_nodes)])


def _corners(trainer: Trainer, worth: np.ndarray) -> list[int]:
    """0, the minimum, every size at which the slope changes, and the maximum."""
    least, most = trainer.min_nodes, trainer.most_nodes
    if not trainer.can_run:
        return [0]
    bends = [
        size
        for size in range(least + 1, most)
        if not math.isclose(worth[size] - worth[size - 1], worth[size + 1] - worth[size], rel_tol=1e-9)
    ]
    return sorted({0, least, *bends, most})


def _one_owner(programme: _Programme, jobs: Sequence[_Job], nodes: int) -> None:
    """Σⱼ getsⱼₙ ≤ 1 for every node n."""
    for node in range(nodes):
        programme.row([(job.gets[node], 1.0) for job in jobs], most=1)


def _changed_nodes(programme: _Programme, job: _Job) -> None:
    """changesₙ = getsₙ xor holdsₙ, as four rows for every node.

    changes ≤ gets + holds;  changes ≥ gets − holds;  changes ≥ holds − gets;  changes ≤ 2 − gets − holds.
    """
    for changes, gets, holds in zip(job.changes, job.gets, job.holds, strict=True):
        programme.row([(changes, 1.0), (gets, -1.0)], most=holds)
        programme.row([(changes, 1.0), (gets, -1.0)], least=-holds)
        programme.row([(changes, 1.0), (gets, 1.0)], least=holds)
        programme.row([(changes, 1.0), (gets, 1.0)], most=2 - holds)


def _minimum(programme: _Programme, job: _Job) -> None:
    """N ≥ min·(1 − off) and N ≤ |nodes|·(1 − off): nothing, or at least the minimum."""
    nodes, least = len(job.gets), job.trainer.min_nodes
    programme.row([*job.size, (job.off, float(least))], least=least)
    programme.row([*job.size, (job.off, float(nodes))], most=nodes)


def _maximum(programme: _Programme, job: _Job) -> None:
    """N ≤ max."""
    programme.row(job.size, most=job.corners[-1])


def _no_migration(programme: _Programme, job: _Job) -> None:
    """A trainer keeps all its nodes or gains none; with m = shrinks_at_most and M = 2·|nodes|.

    N − C ≥ Σ changes − M·m holds with m = 0 only if every change is a gain,
    N − C ≤ −Σ changes + M·(1 − m) with m = 1 only if every change is a loss.
    """
    enough = 2.0 * len(job.gets)
    changes = [(column, 1.0) for column in job.changes]
    loss = [(column, -1.0) for column in job.changes]
    programme.row([*job.size, *loss, (job.shrinks_at_most, enough)], least=job.held_nodes)
    programme.row([*job.size, *changes, (job.shrinks_at_most, enough)], most=job.held_nodes + enough)


def _scalability(programme: _Programme, job: _Job) -> None:
    """Σ share = 1, N = Σ corner·share, and only two neighbouring shares may be above 0.

    One binary for each segment: Σ segment = 1, shareᵢ ≤ segmentᵢ₋₁ + segmentᵢ.
    """
    programme.row([(share, 1.0) for share in job.shares], least=1, most=1)
    at_corners = [(share, -float(corner)) for share, corner in zip(job.shares, job.corners, strict=True)]
    programme.row([*job.size, *at_corners], least=0, most=0)
    segments = [programme.column() for _ in job.corners[1:]]
    if segments:
        programme.row([(segment, 1.0) for segment in segments], least=1, most=1)
        for corner, share in enumerate(job.shares):
            around = segments[max(0, corner - 1) : corner + 1]
            programme.row([(share, 1.0), *((segment, -1.0) for segment in around)], most=0)


def _direction(programme: _Programme, job: _Job) -> None:
    """grows = 1 exactly if N > C, shrinks = 1 exactly if N < C.

    (C + 1)·grows ≤ N ≤ C + (|nodes| − C)·grows and C·(1 − shrinks) ≤ N ≤ |nodes| − (|nodes| − C + 1)·shrinks.
    """
    nodes, held = len(job.gets), job.held_nodes
    programme.row([*job.size, (job.grows, -float(nodes - held))], most=held)
    programme.row([*job.size, (job.grows, -float(held + 1))], least=0)
    programme.row([*job.size, (job.shrinks, float(nodes - held + 1))], most=nodes)
    programme.row([*job.size, (job.shrinks, float(held))], least=held)


def _value(problem: Problem, job: _Job, nodes: int) -> float:
    """The published objective once more, from a whole number of nodes: free of the solver's tolerances."""
    trainer = job.trainer
    now, then = _worth_now(trainer, job.worth, job.held_nodes), float(job.worth[nodes])
    if now == 0:
        return (problem.horizon_s - trainer.start_s) * then
    grown, shrunk = nodes > job.held_nodes, nodes < job.held_nodes
    change_s = problem.changes * (trainer.scale_up_s * grown + trainer.scale_down_s * shrunk)
    return problem.horizon_s * then - now * change_s
