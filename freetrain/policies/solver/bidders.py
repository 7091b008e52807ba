"""Bidders: the trainers of a problem as arrays, those that do not differ put together.

Each bids for the nodes of each of its choices by itself (``freetrain.core.choices``), and gets those of one: a
*bid* is one choice of one kind of trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.value import (
    UsefulTime,
    boots_in_time,
    ends_of,
    switching_costs,
    useful_time,
    worth_while_booting,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Bidders:
    """Trainers as far as they differ, and the classes; row r is one bid, kind j one kind of trainer.

    Attributes:
        whose: the kind of trainer whose bid it is, ascending, shape (bids,).
        worth: worth per second by size, shape (bids, sizes).
        switching: cost of changing to each size, inf where it is impossible, shape (bids, sizes).
        now: use of the nodes of each class for who gets none that it has not.
        booted: use of them for who grows, from when its new nodes have booted; None: new nodes train at once.
        before: what its nodes are worth to who grows until then, shape (bids,).
        joins: whether it may get a new node of each class, and that boots before it leaves, shape (bids, classes).
        covers: of which classes its nodes may be, likewise.
        held: nodes each of them has now, shape (bids, classes).
        number: how many trainers are of each kind, shape (kinds,).
        capacity: nodes in each class, shape (classes,).
        first_of_life: of each class the first that lives as long, shape (classes,).
        known: what was worked out of these trainers before (:meth:`once`).
    """

    whose: Sizes
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
    known: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, what: Hashable, work_out: Callable[[], T]) -> T:
        """What was worked out of these trainers when it was asked for first, whatever nodes were left then."""
        if what not in self.known:
            self.known[what] = work_out()
        found: T = self.known[what]
        return found

    def on(self, capacity: Sizes) -> Bidders:
        """The same trainers, and the nodes that are left."""
        return replace(self, capacity=capacity)

    def apart(self, most: int) -> Bidders:
        """The same trainers, each a kind of its own where no more than so many do not differ."""
        rows, whose, number = list[int](), list[int](), list[int]()
        for kind, alike in enumerate(self.number.tolist()):
            for one_or_all in [1] * alike if alike <= most else [alike]:
                whose += [len(number)] * len(self._bids_of[kind])
                rows += self._bids_of[kind]
                number.append(one_or_all)
        return replace(
            self,
            whose=np.array(whose, dtype=np.int64),
            worth=self.worth[rows],
            switching=self.switching[rows],
            now=self.now.of(rows),
            booted=None if self.booted is None else self.booted.of(rows),
            before=self.before[rows],
            joins=self.joins[rows],
            covers=self.covers[rows],
            held=self.held[rows],
            number=np.array(number, dtype=np.int64),
            known={},
        )

    @property
    def held_by_kind(self) -> Counts:
        """Nodes each kind of trainer has now, shape (kinds, classes)."""
        return self.held[np.searchsorted(self.whose, np.arange(len(self.number)))]

    @cached_property
    def groups(self) -> NDArray[np.bool_]:
        """Kinds of which it is asked how many grow together, shape (groups, kinds).

        Each by itself, then those that train alike but for what they have now and what changes cost, then all.
        """
        alike: dict[bytes, list[int]] = {}
        for kind, bids in enumerate(self._bids_of):
            alike.setdefault(self.worth[bids].tobytes(), []).append(kind)
        single = np.eye(len(self.number), dtype=bool)
        together = [single[kinds].any(axis=0) for kinds in alike.values() if 1 < len(kinds) < len(single)]
        every = [np.ones_like(single[0])] if len(single) > 1 else []
        return np.array([*single, *together, *every])

    @cached_property
    def in_group(self) -> Sizes:
        """How many trainers are in each group, shape (groups,)."""
        return np.asarray(self.groups @ self.number)

    @cached_property
    def _bids_of(self) -> list[list[int]]:
        """Of each kind."""
        return [np.flatnonzero(self.whose == kind).tolist() for kind in range(len(self.number))]

    @cached_property
    def _leave_apart(self) -> bool:
        """Whether no two classes live equally long."""
        return bool((np.diff(self.first_of_life) > 0).all())

    @cached_property
    def last_of_life(self) -> Sizes:
        """The last class of each time at which nodes leave, shape (times,)."""
        return np.flatnonzero(np.diff(self.first_of_life, append=len(self.first_of_life)))

    def sizes_of(self, counts: Counts) -> Counts:
        """Nodes that live until each time at which some leave, shape of ``counts`` with times for classes."""
        return np.cumsum(counts, axis=-1)[..., self.last_of_life]

    def bids_of(self, kind: int) -> list[int]:
        """Those of one kind."""
        return self._bids_of[kind]

    def bids_for(self, kind: int, counts: Counts) -> list[int]:
        """The bids of one kind to which these nodes may belong."""
        if len(self._bids_of[kind]) == 1:
            return self._bids_of[kind]
        return [bid for bid in self._bids_of[kind] if not (counts * ~self.covers[bid]).any()]

    @cached_property
    def places(self) -> list[list[Sizes]]:
        """For each time at which nodes leave, the last one first, classes that leave then, of each bid as many.

        They are as many as any bid covers, each of shape (bids,); a bid that covers fewer has others there whose
        nodes it cannot get.
        """
        lives = []
        for first, last in zip(np.unique(self.first_of_life), self.last_of_life, strict=True):
            columns = np.arange(first, last + 1)
            covers = self.covers[:, columns]
            most = max(1, int(covers.sum(axis=1).max(initial=0)))
            order = columns[np.argsort(~covers, axis=1, kind="stable")]
            lives.append([order[:, place] for place in range(most)])
        return lives

    @cached_property
    def _covers_all(self) -> list[bool]:
        """Whether the nodes of each bid may be of any class."""
        return [bool(covers.all()) for covers in self.covers]

    def bid_of(self, kind: int, counts: Counts) -> int:
        """To which bid of one kind these nodes are worth most, the first of equals."""
        return max(self._bids_of[kind], key=lambda bid: float(self._values_of_bid(bid, counts)))

    def values_of(self, kind: int, counts: Counts) -> NDArray[np.float64]:
        """What some choices of one kind are worth, shape of ``counts`` without its last axis; -inf: impossible."""
        first, *others = self._bids_of[kind]
        values = self._values_of_bid(first, counts)
        for bid in others:
            values = np.maximum(values, self._values_of_bid(bid, counts))
        return values

    def _values_of_bid(self, bid: int, counts: Counts) -> NDArray[np.float64]:
        alive = np.cumsum(counts, axis=-1)
        worth, sizes = self.worth[bid][alive], alive[..., -1]
        ends = counts > 0 if self._leave_apart else ends_of(counts, self.first_of_life)
        values = _worth_of(self.now, bid, ends, worth)
        if self.booted is not None:
            grown = self.before[bid] + _worth_of(self.booted, bid, ends, worth)
            values = np.where(sizes > self.held[bid].sum(), grown, values)
        values = np.asarray(values - self.switching[bid][sizes] - counts @ self.now.power[bid])
        if not self._covers_all[bid]:
            values = np.where((counts * ~self.covers[bid]).any(axis=-1), -np.inf, values)
        return values


def _worth_of(use: UsefulTime, bid: int, ends: NDArray[np.bool_], worth: Table) -> NDArray[np.float64]:
    values: NDArray[np.float64] = ((use.alone_s[bid] - ends * use.end_s[bid]) * worth).sum(axis=-1)
    return values


def bidders_of(problem: Problem) -> tuple[Bidders, list[list[int]]]:
    """The kinds of trainers, and the rows of the problem's trainers of each."""
    choices, classes, first_of_life = problem.choices, problem.classes, problem.first_of_life
    terms, held = choices.terms, problem.held[choices.trainer]
    switching = np.where(terms.possible, switching_costs(terms, problem.held_nodes[choices.trainer]), np.inf)
    now, boots = useful_time(terms, classes, choices.last), bool(terms.boot_s.any())
    booted = useful_time(terms, classes, choices.last, booted=True) if boots else now
    use = (now.alone_s, now.end_s, now.power, booted.alone_s, booted.end_s)
    parts = (terms.worth, switching, *use, held, choices.may_join)
    rows, bids, whose = _alike(choices.trainer, parts)
    sizes = min(terms.worth.shape[1], problem.node_count + 1)
    bidders = Bidders(
        whose,
        terms.worth[bids, :sizes],
        switching[bids, :sizes],
        now.of(bids),
        booted.of(bids) if boots else None,
        worth_while_booting(terms, held, ends_of(held, first_of_life), now, booted)[bids],
        (boots_in_time(terms, classes) & choices.may_join)[bids],
        choices.covers[bids],
        held[bids],
        np.array([len(each) for each in rows]),
        problem.capacity,
        first_of_life,
    )
    return bidders, rows


def _alike(
    trainer: Sizes, parts: Sequence[NDArray[np.generic]]
) -> tuple[list[list[int]], NDArray[np.int64], Sizes]:
    """The trainers that do not differ in any choice.

    Args:
        trainer: whose each choice is, ascending.
        parts: in which choices may differ, a row for each.

    Returns:
        The trainers of each kind; the choices of the first of each; of which kind these are.
    """
    said: dict[int, list[bytes]] = {}
    for row, whose in enumerate(trainer.tolist()):
        said.setdefault(whose, []).append(b"".join(np.ascontiguousarray(part[row]).tobytes() for part in parts))
    members: dict[tuple[bytes, ...], list[int]] = {}
    for whose, each in said.items():
        members.setdefault(tuple(each), []).append(whose)
    rows = list(members.values())
    begin = np.searchsorted(trainer, np.arange(len(said) + 1)).tolist()
    bids = [list(range(begin[each[0]], begin[each[0] + 1])) for each in rows]
    whose = np.repeat(np.arange(len(rows)), [len(each) for each in bids])
    return rows, np.array([bid for each in bids for bid in each], dtype=np.int64), whose
