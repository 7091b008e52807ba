"""Terms: the trainers' limits, worth and costs as arrays, the form in which policies reckon with them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.aim import read_aim
from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer

Table = NDArray[np.float64]
"""A number for each size of one trainer, shape (sizes,), or of each trainer, shape (trainers, sizes)."""
Sizes = NDArray[np.int64]
"""Nodes of each trainer, shape (trainers,)."""
Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """The array itself, made read-only, because several decisions share it."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Terms of trainers for valuing allocations; row j is trainer j.

    Attributes:
        worth: worth per second by size, shape (trainers, sizes); 0 where a trainer may not have the size.
        most_nodes: largest possible size, shape (trainers,).
        scale_up_s: cost of growing, shape (trainers,); so are the other costs.
        known_end_s: cost of losing nodes at a time that was known; 0 for independent trainers.
        leaving_s: cost of each node that leaves at a time that was known; 0 for all others.
        boot_s: seconds for which a new node does nothing.
        per_joule: training that each must do for a joule of its nodes, in worth, shape (trainers,).
        kind: a number for each trainer, the same for those of which all this is the same, shape (trainers,).
        names_kinds: whether any of them names kinds of nodes that it may have.
        warnings: sentences on trainers that are not as their owners may think.
    """

    worth: Table
    possible: NDArray[np.bool_]
    most_nodes: Sizes
    scale_up_s: NDArray[np.float64]
    scale_down_s: NDArray[np.float64]
    eviction_s: NDArray[np.float64]
    known_end_s: NDArray[np.float64]
    leaving_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    boot_s: NDArray[np.float64]
    moldable: NDArray[np.bool_]
    independent: NDArray[np.bool_]
    per_joule: NDArray[np.float64]
    kind: Sizes
    names_kinds: bool = False
    warnings: tuple[str, ...] = ()

    def of(self, rows: Sizes) -> Terms:
        """The terms of some trainers."""
        arrays: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return Terms(**arrays, names_kinds=self.names_kinds)

    def with_worth(self, worth: Table, by: NDArray[Any]) -> Terms:
        """The terms with another worth; trainers of one kind stay one where they are alike in ``by``."""
        # numpy 2.0 returns the inverse with more axes than other releases do, hence reshape.
        _, kind = np.unique(np.stack([self.kind, by]), axis=1, return_inverse=True)
        return replace(self, worth=read_only(worth), kind=read_only(kind.reshape(-1).astype(np.int64)))


_ARRAYS = tuple(field.name for field in fields(Terms) if field.name not in ("names_kinds", "warnings"))


def terms_of(trainers: tuple[Trainer, ...], objective: str) -> Terms:
    """The trainers' terms under an objective; callers share them."""
    # A replay hands over the very same tuple many times: it is found without hashing thousands of trainers.
    return _terms_of_same(_Same(trainers), objective)


def forget_terms() -> None:
    """Forget what is cached, as where the time of computing it is measured."""
    _terms_of_same.cache_clear()
    _terms_of.cache_clear()
    with_changes.cache_clear()


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A cache key that is equal for the very same tuple of trainers only, without a look at each of them."""

    trainers: tuple[Trainer, ...]

    def __hash__(self) -> int:
        return id(self.trainers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.trainers is other.trainers


@lru_cache(maxsize=1)
def _terms_of_same(same: _Same, objective: str) -> Terms:
    return _terms_of(same.trainers, objective)


@lru_cache(maxsize=512)
def _terms_of(trainers: tuple[Trainer, ...], objective: str) -> Terms:
    alike: dict[_Particulars, int] = {}
    known = [_known(trainer, objective) for trainer in trainers]
    kind = np.array([alike.setdefault(particulars, len(alike)) for particulars, _ in known], dtype=np.int64)
    # A row for each distinct trainer, spread over all in the end: alike trainers are computed once.
    numbers = np.array([row for row, _ in alike]).reshape(-1, _NUMBERS)
    # Nodes that work together are lost together, those that work by themselves one by one.
    evictions_s, alone = read_aim(objective).evictions_s, numbers[:, _ALONE]
    numbers[:, _KNOWN_END] += evictions_s * (1.0 - alone)
    numbers[:, _LEAVING] += evictions_s * alone
    max_nodes, min_nodes = numbers[:, :2].T.astype(np.int64)
    size = np.arange(int(max_nodes.max(initial=0)) + 1)
    worth = np.zeros((len(alike), len(size)))
    for row, (_, worth_bytes) in enumerate(alike):
        worth[row, : max_nodes[row] + 1] = np.frombuffer(worth_bytes)
    # To have no node is possible for everybody.
    possible = (size == 0) | ((size >= min_nodes[:, None]) & (size <= max_nodes[:, None]))
    *costs_s, moldable, independent, per_joule = numbers[kind, 2:].T.copy()
    flags = moldable.astype(bool), independent.astype(bool)
    found = worth[kind], possible[kind], max_nodes[kind], *costs_s, *flags, per_joule, kind
    arrays: dict[str, Any] = {name: read_only(array) for name, array in zip(_ARRAYS, found, strict=True)}
    names_kinds = any(trainer.choices is not None for trainer in trainers)
    warnings = tuple(chain.from_iterable(warnings for _, warnings in known))
    return Terms(**arrays, names_kinds=names_kinds, warnings=warnings)


_Particulars = tuple[tuple[float, ...], bytes]
"""The facts by which trainers differ: numbers, and worth by size."""
# Positions in the numbers of ``_particulars``, which stand in the order of ``Terms``.
_NUMBERS, _KNOWN_END, _LEAVING, _ALONE = 12, 5, 6, 10


@lru_cache(maxsize=4)  # dealing and deciding ask with the same terms, and share the tables computed of them
def with_changes(terms: Terms, changes: float) -> Terms:
    """The terms with growing and shrinking charged so often, for trainers that rescale."""
    if changes == 1.0:
        return terms
    times = np.where(terms.independent | terms.moldable, 1.0, changes)
    up_s, down_s = read_only(terms.scale_up_s * times), read_only(terms.scale_down_s * times)
    return replace(terms, scale_up_s=up_s, scale_down_s=down_s)


def with_sizes_that_stay(terms: Terms, held_nodes: Sizes) -> Terms:
    """The terms where a moldable trainer that has nodes may keep exactly these, or have none."""
    stays = terms.moldable & (held_nodes > 0)
    if not stays.any():
        return terms
    size = np.arange(terms.possible.shape[1])
    kept = (size == 0) | (size == held_nodes[:, None])
    return replace(terms, possible=read_only(terms.possible & (kept | ~stays[:, None])))


@lru_cache(maxsize=2048)  # as worth_per_s, which it holds
def _known(trainer: Trainer, objective: str) -> tuple[_Particulars, tuple[str, ...]]:
    """The facts by which a trainer differs, and warnings on what its owner may not expect.

    The facts are numbers (most and least nodes, then those of the terms, in their order), and its worth.
    """
    aim, alone = read_aim(objective), trainer.independent
    most = trainer.most_nodes if trainer.can_run else 0
    numbers = (
        most,
        trainer.min_nodes,
        trainer.scale_up_s,
        trainer.scale_down_s,
        trainer.eviction_s,
        0.0 if alone else trainer.known_end_s,
        trainer.known_end_s if alone else 0.0,
        trainer.start_s,
        trainer.boot_s,
        trainer.moldable,
        alone,
        aim.per_joule * aim.scale_of(trainer.weight),
    )
    # As bytes, which a dictionary can compare: equal trainers are one row.
    return (numbers, worth_per_s(trainer, objective)[: most + 1].tobytes()), _warnings(trainer)


def _warnings(trainer: Trainer) -> tuple[str, ...]:
    most, clauses = trainer.most_nodes, []
    if trainer.max_nodes is not None and trainer.max_nodes > most:
        clauses.append(f"max_nodes {trainer.max_nodes} lies past the last throughput point and is cut to {most}")
    if not trainer.can_run:
        least = f"min_nodes {trainer.min_nodes} lies past the last throughput point ({most} nodes)"
        clauses.append(f"{least}, so it never gets a node")
    return tuple(f"trainer {trainer.id}: {clause}" for clause in clauses)
