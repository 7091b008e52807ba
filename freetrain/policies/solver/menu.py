"""A menu: what one trainer may be given of one of its choices, in the form in which HiGHS gets to see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.problem import Problem
from freetrain.core.terms import Table
from freetrain.core.value import (
    UsefulTime,
    boots_in_time,
    ends_of,
    switching_costs,
    useful_time,
    worth_while_booting,
)
from freetrain.policies.solver.pieces import Piece, linear_runs, pieces_on
from freetrain.policies.solver.pricing import Priced


@dataclass(frozen=True, slots=True)
class Menu:
    """What one trainer may be given of one of its choices.

    Attributes:
        trainer: row of the trainer in the problem.
        pieces: value of its size in each interval, one list per class.
        held: nodes it has now, by class.
        joins: whether it may get a new node of each class, and that boots before it leaves.
        first_of_life: of each class the first that lives as long.
        power: what the electricity of a node of each class counts; empty: nothing, or the pieces say it.
    """

    trainer: int
    pieces: Sequence[Sequence[Piece]]
    held: Sequence[int]
    joins: Sequence[bool]
    first_of_life: Sequence[int] = (0,)
    power: Sequence[float] = ()


def single_class_menus(problem: Problem, priced: Priced) -> Iterator[Menu]:
    """What each trainer may be given of the only class: the sizes that pricing left."""
    tables = zip(problem.held_nodes.tolist(), priced.values, priced.worthwhile, strict=True)
    for row, (held, table, worthwhile) in enumerate(tables):
        sizes = np.flatnonzero(worthwhile).tolist()
        yield Menu(row, [pieces_on(table, linear_runs(table, sizes, held))], [held], [True])


def menus_of(problem: Problem) -> Iterator[Menu]:
    """What each trainer may be given of several classes, one menu for each of its choices."""
    choices, classes = problem.choices, problem.classes
    terms, has = choices.terms, problem.held[choices.trainer]
    switching = switching_costs(terms, has.sum(axis=1))
    now, booted = (useful_time(terms, classes, choices.last, booted=each) for each in (False, True))
    before = worth_while_booting(terms, has, ends_of(has, problem.first_of_life), now, booted)
    joins = boots_in_time(terms, classes) & choices.may_join
    for row, held in enumerate(has.sum(axis=1).tolist()):
        most = int(terms.most_nodes[row])
        if terms.boot_s[row]:
            pieces = _both_ways(
                problem,
                row,
                _Way(now, switching[row], range(min(held, most) + 1)),
                _Way(booted, switching[row] - before[row], range(held + 1, most + 1), grown=True),
            )
        else:
            pieces = _one_way(problem, row, _Way(now, switching[row], range(most + 1)))
        whose, first_of_life = int(choices.trainer[row]), problem.first_of_life.tolist()
        power = now.power[row].tolist() if now.power[row].any() else ()
        yield Menu(whose, pieces, has[row].tolist(), joins[row].tolist(), first_of_life, power)


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to change.

    Attributes:
        use: of the nodes of each class.
        cost: of changing to each size.
        sizes: that the trainer may have in all.
        grown: whether they are those of who grows, where new nodes must boot.
    """

    use: UsefulTime
    cost: Table
    sizes: range
    grown: bool = False


def _one_way(problem: Problem, row: int, way: _Way) -> list[list[Piece]]:
    return [_interval(problem, row, column, way) for column in range(len(problem.classes))]


def _both_ways(problem: Problem, row: int, keeping: _Way, growing: _Way) -> list[list[Piece]]:
    """Pieces of both; where ends are charged, those of who grows are marked so, also where they cost nothing."""
    pieces = _one_way(problem, row, keeping)
    whole = len(pieces) - 1
    if not _interval(problem, row, whole, growing):
        return pieces
    return [
        each + _interval(problem, row, column, growing, charges=any(one.evicted for one in each))
        for column, each in enumerate(pieces)
    ]


def _interval(problem: Problem, row: int, column: int, way: _Way, *, charges: bool = False) -> list[Piece]:
    """Value of a trainer's size while the nodes of classes 0 … column are alive and no others.

    Args:
        problem: the problem.
        row: which choice.
        column: the shortest-lived of these classes.
        way: how it changes.
        charges: mark pieces as charging the end of the class where it costs nothing.
    """
    terms = problem.choices.terms
    worth = terms.worth[row]
    whole = column == len(problem.classes) - 1
    gain: Table = way.use.alone_s[row, column] * worth - (way.cost if whole else 0.0)
    loss: Table = way.use.end_s[row, column] * worth
    if problem.first_of_life[column] == 0:  # every node is gone after it, so this loss is certain
        gain, loss = gain - loss, np.zeros_like(loss)
    most = min(int(terms.most_nodes[row]), int(problem.capacity[: column + 1].sum()))
    possible = np.flatnonzero(terms.possible[row]).tolist() if whole else range(most + 1)
    sizes = [size for size in possible if size <= most and (not whole or size in way.sizes)]
    held = int(problem.held_nodes[problem.choices.trainer[row]])
    runs = list(linear_runs(worth, sizes, held if whole else -1))
    if not loss.any():
        return pieces_on(gain, runs, charges, way.grown)
    return pieces_on(gain, runs, grown=way.grown) + pieces_on(gain - loss, runs, evicted=True, grown=way.grown)
