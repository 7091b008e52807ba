"""Piecewise linear values: the choices of trainers in the form that the whole model states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Table
from freetrain.core.value import (
    UsefulTime,
    ends_of,
    switching_costs,
    useful_time,
    value_before_boot,
)
from freetrain.policies.solver.knapsack import Priced

SizeRun = tuple[int, int]
"""Smallest and largest size of a run."""

_STRAIGHT = 1e-9
"""Steps that differ by no more than this share of the value belong to one piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Sizes ``min_nodes`` … ``max_nodes``, whose value is ``value + slope · (n − min_nodes)``.

    ``evicted``: the value charges the loss of nodes at the end of the interval; ``grown``: it counts from when new
    nodes have booted.
    """

    min_nodes: int
    max_nodes: int
    value: float
    slope: float
    evicted: bool = False
    grown: bool = False


def linear_runs(table: Table, sizes: Iterable[int], held_nodes: int) -> Iterator[SizeRun]:
    """Cut ascending sizes into few runs on which the table is linear.

    ``held_nodes`` is always a run of its own: on its two sides the costs of growing and shrinking set in.
    """
    min_nodes = max_nodes = -1
    slope = 0.0
    for size in sizes:
        step = float(table[size] - table[max_nodes]) if max_nodes >= 0 else np.inf
        adjacent = size == max_nodes + 1 and held_nodes not in (size, max_nodes)
        straight = max_nodes == min_nodes or abs(step - slope) <= _STRAIGHT * max(1.0, abs(float(table[size])))
        if max_nodes >= 0 and not (adjacent and straight):
            yield min_nodes, max_nodes
        if max_nodes < 0 or not (adjacent and straight):
            min_nodes = size
        max_nodes, slope = size, step
    if max_nodes >= 0:
        yield min_nodes, max_nodes


def pieces_on(table: Table, runs: Iterable[SizeRun], evicted: bool = False, grown: bool = False) -> list[Piece]:
    """The pieces of a table on runs of sizes on which it is linear."""
    return [
        Piece(
            min_nodes,
            max_nodes,
            float(table[min_nodes]),
            float(table[max_nodes] - table[min_nodes]) / (max_nodes - min_nodes) if max_nodes > min_nodes else 0.0,
            evicted,
            grown,
        )
        for min_nodes, max_nodes in runs
    ]


@dataclass(frozen=True, slots=True)
class PiecewiseChoice:
    """One choice of one trainer.

    Attributes:
        pieces: value of its size in each interval, one list per class.
        held: nodes it has now, by class.
        joins: whether it may get a new node of each class, and that boots before it leaves.
        power: cost of the electricity of a node of each class; empty: none, or the pieces contain it.
    """

    trainer: int
    pieces: Sequence[Sequence[Piece]]
    held: Sequence[int]
    joins: Sequence[bool]
    first_of_life: Sequence[int] = (0,)
    power: Sequence[float] = ()


def counts_by_choice(problem: Problem, choices: Sequence[PiecewiseChoice], counts: Counts) -> Counts:
    """An allocation as nodes of each choice and class: those of its trainer where it makes this choice, else 0."""
    of_trainer = np.array([choice.trainer for choice in choices])
    is_made = np.ones(len(of_trainer), dtype=bool)
    if len(of_trainer) > len(counts):
        is_made = problem.choices.made_by(counts)[of_trainer] == np.arange(len(of_trainer))
    return np.where(is_made[:, None], counts[of_trainer], 0)


def single_class_choices(problem: Problem, priced: Priced) -> Iterator[PiecewiseChoice]:
    """The choice of each trainer where there is one class: the sizes that pricing left."""
    tables = zip(problem.held_nodes.tolist(), priced.values, priced.worthwhile, strict=True)
    for row, (held, table, worthwhile) in enumerate(tables):
        sizes = np.flatnonzero(worthwhile).tolist()
        yield PiecewiseChoice(row, [pieces_on(table, linear_runs(table, sizes, held))], [held], [True])


def piecewise_choices(problem: Problem) -> Iterator[PiecewiseChoice]:
    """The choices of each trainer where there are several classes."""
    options, classes = problem.choices, problem.classes
    terms, has = options.terms, problem.held[options.trainer]
    switching = switching_costs(terms, has.sum(axis=1))
    now, booted = (useful_time(terms, classes, options.last, booted=booted) for booted in (False, True))
    before = value_before_boot(terms, has, ends_of(has, problem.first_of_life), now, booted)
    for row, held in enumerate(has.sum(axis=1).tolist()):
        most, boots = int(terms.most_nodes[row]), bool(terms.boot_s[row])
        keeping = _GrowthMode(now, switching[row], range((min(held, most) if boots else most) + 1))
        pieces = [_interval(problem, row, column, keeping) for column in range(len(classes))]
        growing = _GrowthMode(booted, switching[row] - before[row], range(held + 1, most + 1), grown=True)
        if boots and _interval(problem, row, len(classes) - 1, growing):
            # Where ends are charged, pieces of growing are marked even if the end costs nothing.
            pieces = [
                kept + _interval(problem, row, column, growing, charges=any(piece.evicted for piece in kept))
                for column, kept in enumerate(pieces)
            ]
        trainer, first_of_life = int(options.trainer[row]), problem.first_of_life.tolist()
        power = now.power[row].tolist() if now.power[row].any() else ()
        yield PiecewiseChoice(
            trainer, pieces, has[row].tolist(), problem.joins[row].tolist(), first_of_life, power
        )


@dataclass(frozen=True, slots=True)
class _GrowthMode:
    """Growing (new nodes must boot), or not growing, of a choice, with the sizes that it may have in all."""

    use: UsefulTime
    cost: Table
    sizes: range
    grown: bool = False


def _interval(problem: Problem, row: int, column: int, mode: _GrowthMode, *, charges: bool = False) -> list[Piece]:
    """Value of a choice's size while the nodes of classes 0 … column are alive and no others.

    ``charges``: mark pieces as charging the end of the class where it costs nothing.
    """
    terms = problem.choices.terms
    worth = terms.worth[row]
    whole = column == len(problem.classes) - 1
    gain: Table = mode.use.alone_s[row, column] * worth - (mode.cost if whole else 0.0)
    loss: Table = mode.use.end_s[row, column] * worth
    if problem.first_of_life[column] == 0:  # every node is gone after it, so this loss is certain
        gain, loss = gain - loss, np.zeros_like(loss)
    most = min(int(terms.most_nodes[row]), int(problem.capacity[: column + 1].sum()))
    possible = np.flatnonzero(terms.possible[row]).tolist() if whole else range(most + 1)
    sizes = [size for size in possible if size <= most and (not whole or size in mode.sizes)]
    held = int(problem.held_nodes[problem.choices.trainer[row]])
    # What a change costs stands with the whole size: only there does the held size bend the value.
    runs = list(linear_runs(worth, sizes, held if whole else -1))
    # Without a loss both pieces would be equal, and HiGHS would branch between them.
    if not loss.any():
        return pieces_on(gain, runs, charges, mode.grown)
    return pieces_on(gain, runs, grown=mode.grown) + pieces_on(gain - loss, runs, evicted=True, grown=mode.grown)
