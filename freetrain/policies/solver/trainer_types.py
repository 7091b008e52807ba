"""Trainer types: the trainers of a problem as arrays, identical ones grouped.

A *type* is a set of trainers that do not differ in anything. A type has one or several *choices*
(``freetrain.core.classes``), each with nodes that it covers; a trainer gets nodes of one of them. *Branch limits*
are what a branch of the search allows them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.classes import last_of_life
from freetrain.core.grouping import grouped
from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import (
    UsefulTime,
    ends_of,
    switching_costs,
    useful_time,
    value_before_boot,
)

T = TypeVar("T")


@dataclass(frozen=True)
class TrainerTypes:
    """Types of trainers with their choices, and the classes of nodes.

    Attributes:
        type_of: the type of each choice, ascending, shape (choices,).
        worth: worth per second by size, shape (choices, sizes).
        switching: cost of changing to each size, inf where it is impossible, shape (choices, sizes).
        now: use of the nodes of each class for a trainer that gets no new node.
        booted: use of them for a trainer that grows, from when new nodes have booted; None: they train at once.
        before: worth of the held nodes to a trainer that grows, until then, shape (choices,).
        joins: whether it may get a new node of each class, and that boots in time, shape (choices, classes).
        covers: classes of which its nodes may be, likewise.
        held: nodes that a trainer has now, shape (choices, classes).
        number: number of trainers of each type, shape (types,).
        capacity: nodes in each class, shape (classes,).
        first_of_life: for each class the first class that lives as long, shape (classes,).
    """

    type_of: Sizes
    worth: Table
    switching: Table
    now: UsefulTime
    booted: UsefulTime | None
    before: NDArray[np.float64]
    joins: NDArray[np.bool_]
    covers: NDArray[np.bool_]
    held: Counts
    number: Sizes
    capacity: Sizes
    first_of_life: Sizes
    cache: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of the first computation under this key; :meth:`on` shares it, whatever its capacity."""
        if key not in self.cache:
            self.cache[key] = compute()
        found: T = self.cache[key]
        return found

    def on(self, capacity: Sizes) -> TrainerTypes:
        """The same trainers on other nodes."""
        return replace(self, capacity=capacity)

    def split_small_types(self, limit: int) -> TrainerTypes:
        """The same trainers, each of a type of its own where its type has at most ``limit`` of them."""
        rows, type_of, number = list[int](), list[int](), list[int]()
        for type_id, alike in enumerate(self.number.tolist()):
            for size in [1] * alike if alike <= limit else [alike]:
                type_of += [len(number)] * len(self.choices_of[type_id])
                rows += self.choices_of[type_id]
                number.append(size)
        by_choice = ("worth", "switching", "now", "before", "joins", "covers", "held")
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in by_choice},
            type_of=np.array(type_of, dtype=np.int64),
            booted=None if self.booted is None else self.booted[rows],
            number=np.array(number, dtype=np.int64),
            # Not shared: results are kept by numbers of types and choices, which change here.
            cache={},
        )

    @property
    def held_by_type(self) -> Counts:
        """Nodes that a trainer of each type has now, shape (types, classes)."""
        return self.held[np.searchsorted(self.type_of, np.arange(len(self.number)))]

    @cached_property
    def groups(self) -> NDArray[np.bool_]:
        """Groups of types whose growing trainers are counted together, shape (groups, types).

        First each type by itself, then types with the same curves (they differ in held nodes or costs), then all.
        """
        alike = grouped(
            (self.worth[choices].tobytes(), type_id) for type_id, choices in enumerate(self.choices_of)
        )
        single = np.eye(len(self.number), dtype=bool)
        together = [single[type_ids].any(axis=0) for type_ids in alike.values() if 1 < len(type_ids) < len(single)]
        every = [np.ones_like(single[0])] if len(single) > 1 else []
        return np.array([*single, *together, *every])

    @cached_property
    def in_group(self) -> Sizes:
        """Number of trainers in each group, shape (groups,)."""
        return np.asarray(self.groups @ self.number)

    @cached_property
    def choices_of(self) -> list[list[int]]:
        """Choices of each type."""
        return [np.flatnonzero(self.type_of == type_id).tolist() for type_id in range(len(self.number))]

    @cached_property
    def _leave_apart(self) -> bool:
        return bool((np.diff(self.first_of_life) > 0).all())

    @cached_property
    def last_of_life(self) -> Sizes:
        """The last class that leaves at each time at which nodes leave, shape (times,)."""
        return last_of_life(self.first_of_life)

    def sizes_of(self, counts: Counts) -> Counts:
        """Nodes that live until each time at which nodes leave: the last axis of ``counts`` becomes times."""
        return np.cumsum(counts, axis=-1)[..., self.last_of_life]

    def choices_covering(self, type_id: int, counts: Counts) -> list[int]:
        """Choices of one type that cover these nodes."""
        if len(self.choices_of[type_id]) == 1:
            return self.choices_of[type_id]
        return [choice for choice in self.choices_of[type_id] if not (counts * ~self.covers[choice]).any()]

    @cached_property
    def places(self) -> list[list[Sizes]]:
        """For each time at which nodes leave, the last one first: the classes that leave then, of each choice.

        Each entry has shape (choices,). There are as many entries as any choice covers classes; a choice that
        covers fewer has other classes there, of which it cannot get nodes.
        """
        lives = []
        for first, last in zip(np.unique(self.first_of_life), self.last_of_life, strict=True):
            columns = np.arange(first, last + 1)
            covers = self.covers[:, columns]
            entries = max(1, int(covers.sum(axis=1).max(initial=0)))
            order = columns[np.argsort(~covers, axis=1, kind="stable")]
            lives.append([order[:, place] for place in range(entries)])
        return lives

    @cached_property
    def _covers_all(self) -> list[bool]:
        return [bool(covers.all()) for covers in self.covers]

    def choice_of(self, type_id: int, counts: Counts) -> int:
        """The choice of one type with which these nodes are worth most, the first of equals."""
        return max(self.choices_of[type_id], key=lambda choice: float(self._values_of_choice(choice, counts)))

    def values_of(self, type_id: int, counts: Counts) -> NDArray[np.float64]:
        """Values of columns of one type, shape of ``counts`` without its last axis; -inf: impossible."""
        first, *others = self.choices_of[type_id]
        values = self._values_of_choice(first, counts)
        for choice in others:
            values = np.maximum(values, self._values_of_choice(choice, counts))
        return values

    def _values_of_choice(self, choice: int, counts: Counts) -> NDArray[np.float64]:
        alive = np.cumsum(counts, axis=-1)
        worth, sizes = self.worth[choice][alive], alive[..., -1]
        ends = counts > 0 if self._leave_apart else ends_of(counts, self.first_of_life)
        values = _worth_of(self.now, choice, ends, worth)
        if self.booted is not None:
            grown = self.before[choice] + _worth_of(self.booted, choice, ends, worth)
            values = np.where(sizes > self.held[choice].sum(), grown, values)
        values = np.asarray(values - self.switching[choice][sizes] - counts @ self.now.power[choice])
        if not self._covers_all[choice]:
            values = np.where((counts * ~self.covers[choice]).any(axis=-1), -np.inf, values)
        return values


def _worth_of(use: UsefulTime, choice: int, ends: NDArray[np.bool_], worth: Table) -> NDArray[np.float64]:
    values: NDArray[np.float64] = ((use.alone_s[choice] - ends * use.end_s[choice]) * worth).sum(axis=-1)
    return values


def types_of(problem: Problem) -> tuple[TrainerTypes, list[list[int]]]:
    """The types of a problem's trainers, and the rows of the trainers of each type."""
    options, classes, first_of_life = problem.choices, problem.classes, problem.first_of_life
    terms, held = options.terms, problem.held[options.trainer]
    switching = np.where(terms.possible, switching_costs(terms, problem.held_nodes[options.trainer]), np.inf)
    now, boots = useful_time(terms, classes, options.last), bool(terms.boot_s.any())
    booted = useful_time(terms, classes, options.last, booted=True) if boots else now
    use = (now.alone_s, now.end_s, now.power, booted.alone_s, booted.end_s)
    fields = (terms.worth, switching, *use, held, options.may_join)
    rows, choices, type_of = _alike(options.trainer, fields)
    # Larger sizes cannot be had, and tables of them would only cost time.
    sizes = min(terms.worth.shape[1], problem.node_count + 1)
    trainers = TrainerTypes(
        type_of,
        terms.worth[choices, :sizes],
        switching[choices, :sizes],
        now[choices],
        booted[choices] if boots else None,
        value_before_boot(terms, held, ends_of(held, first_of_life), now, booted)[choices],
        problem.joins[choices],
        options.covers[choices],
        held[choices],
        np.array([len(of_type) for of_type in rows]),
        problem.capacity,
        first_of_life,
    )
    return trainers, rows


def _alike(
    owner: Sizes, fields: Sequence[NDArray[np.generic]]
) -> tuple[list[list[int]], NDArray[np.int64], Sizes]:
    """Rows of trainers that differ in no choice; the choices of the first of each group, and their groups."""
    keys = grouped(
        (trainer, b"".join(np.ascontiguousarray(values[row]).tobytes() for values in fields))
        for row, trainer in enumerate(owner.tolist())
    )
    rows = list(grouped((tuple(of_trainer), trainer) for trainer, of_trainer in keys.items()).values())
    begin = np.searchsorted(owner, np.arange(len(keys) + 1)).tolist()
    choices = [list(range(begin[trainers[0]], begin[trainers[0] + 1])) for trainers in rows]
    type_of = np.repeat(np.arange(len(rows)), [len(own) for own in choices])
    return rows, np.array([choice for own in choices for choice in own], dtype=np.int64), type_of


_NEVER = -1
"""``max_nodes`` of a choice that is forbidden: not even no node."""


@dataclass(frozen=True, slots=True)
class BranchLimits:
    """Limits of a branch of the search; a *time* is one at which nodes leave, the last time first.

    Attributes:
        min_nodes: nodes that each choice has at least until each time, shape (choices, times).
        max_nodes: nodes that it has at most until each time, likewise.
        ends: whether it has nodes that leave at each time (1: some, -1: none, 0: either), likewise.
        min_growing: trainers of each group that grow at least, shape (groups,).
        max_growing: trainers of each group that grow at most, likewise.
    """

    min_nodes: Counts
    max_nodes: Counts
    ends: Counts
    min_growing: Sizes
    max_growing: Sizes

    def allow(self, choices: Counts, sizes: Counts) -> NDArray[np.bool_]:
        """Whether each of these choices, with these sizes until each time (a row each), is allowed."""
        within = (sizes >= self.min_nodes[choices]) & (sizes <= self.max_nodes[choices])
        if self.ends.any():
            leave = np.diff(sizes, axis=1, prepend=0) > 0
            within &= np.where(leave, self.ends[choices] >= 0, self.ends[choices] <= 0)
        return np.asarray(within.all(axis=1))

    def at_most(self, choices: list[int], time: int, size: int) -> BranchLimits:
        """The same, with at most ``size`` nodes until this time."""
        return self._with("max_nodes", (choices, time), np.minimum(self.max_nodes[choices, time], size))

    def more_than(self, choices: list[int], time: int, size: int) -> BranchLimits:
        """The same, with more than ``size`` nodes until this time."""
        return self._with("min_nodes", (choices, time), np.maximum(self.min_nodes[choices, time], size + 1))

    def with_end(self, choices: list[int], time: int, sign: int) -> BranchLimits:
        """The same, with some nodes that leave at this time (``sign`` 1), or none (-1)."""
        return self._with("ends", (choices, time), sign)

    def without(self, choices: list[int]) -> BranchLimits:
        """The same without these choices."""
        return self._with("max_nodes", choices, _NEVER)

    def at_most_growing(self, group: int, number: int) -> BranchLimits:
        """The same, with at most ``number`` growing trainers of this group."""
        return self._with("max_growing", group, min(self.max_growing[group], number))

    def more_growing_than(self, group: int, number: int) -> BranchLimits:
        """The same, with more than ``number`` growing trainers of this group."""
        return self._with("min_growing", group, max(self.min_growing[group], number + 1))

    def _with(self, name: str, where: Any, value: Any) -> BranchLimits:
        limits = getattr(self, name).copy()
        limits[where] = value
        return replace(self, **{name: limits})


def no_limits(trainers: TrainerTypes) -> BranchLimits:
    """Limits of the root: everything that the nodes allow."""
    shape = len(trainers.type_of), len(trainers.last_of_life)
    min_nodes, max_nodes = np.zeros(shape, np.int64), np.full(shape, int(trainers.capacity.sum()))
    return BranchLimits(
        min_nodes, max_nodes, np.zeros_like(min_nodes), np.zeros_like(trainers.in_group), trainers.in_group
    )
