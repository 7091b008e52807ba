"""Terms: the trainers' limits, worth and costs as arrays, the form in which policies reckon with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer

Table = NDArray[np.float64]
"""A number for each size of one trainer, shape (sizes,), or of each trainer, shape (trainers, sizes)."""
Sizes = NDArray[np.int64]
"""Nodes of each trainer, shape (trainers,)."""
Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """The array itself, which cannot be written to any more: whoever decides shares it with others."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be known of trainers in order to value allocations; row j is trainer j.

    Attributes:
        worth: worth per second by size, shape (trainers, sizes); 0 where a trainer may not have the size.
        possible: whether a trainer may have the size, shape (trainers, sizes).
        most_nodes: largest possible size, shape (trainers,).
        scale_up_s: cost of growing, shape (trainers,); the other costs likewise.
        scale_down_s: cost of shrinking.
        eviction_s: cost of losing nodes unasked.
        known_end_s: cost of losing nodes at a time that was known; 0 for independent trainers.
        leaving_s: cost of each node that leaves at a time that was known; 0 for all others.
        start_s: cost of starting from nothing.
        independent: whose nodes work each by itself, shape (trainers,).
        warnings: what in the trainers is not as their owners may think.
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
    independent: NDArray[np.bool_]
    warnings: tuple[str, ...] = ()


@lru_cache(maxsize=512)
def terms_of(trainers: tuple[Trainer, ...], objective: str) -> Terms:
    """The trainers' terms under an objective; callers share them."""
    most = np.array([trainer.most_nodes if trainer.can_run else 0 for trainer in trainers], dtype=np.int64)
    fewest = np.array([trainer.min_nodes for trainer in trainers], dtype=np.int64)
    size = np.arange(int(most.max(initial=0)) + 1)
    worth = np.zeros((len(trainers), len(size)))
    for row, trainer in enumerate(trainers):
        worth[row, : most[row] + 1] = worth_per_s(trainer, objective)[: most[row] + 1]
    return Terms(
        read_only(worth),
        read_only((size == 0) | ((size >= fewest[:, None]) & (size <= most[:, None]))),
        read_only(most),
        read_only(np.array([trainer.scale_up_s for trainer in trainers])),
        read_only(np.array([trainer.scale_down_s for trainer in trainers])),
        read_only(np.array([trainer.eviction_s for trainer in trainers])),
        read_only(np.array([0.0 if trainer.independent else trainer.known_end_s for trainer in trainers])),
        read_only(np.array([trainer.known_end_s if trainer.independent else 0.0 for trainer in trainers])),
        read_only(np.array([trainer.start_s for trainer in trainers])),
        read_only(np.array([trainer.independent for trainer in trainers], dtype=bool)),
        (*_cut(trainers), *_stuck(trainers)),
    )


def _cut(trainers: Sequence[Trainer]) -> Iterator[str]:
    for trainer in trainers:
        if trainer.max_nodes is not None and trainer.max_nodes > trainer.most_nodes:
            yield (
                f"trainer {trainer.id}: max_nodes {trainer.max_nodes} lies past the last throughput point and is "
                f"cut to {trainer.most_nodes}"
            )


def _stuck(trainers: Sequence[Trainer]) -> Iterator[str]:
    for trainer in trainers:
        if not trainer.can_run:
            yield (
                f"trainer {trainer.id}: min_nodes {trainer.min_nodes} lies past the last throughput point "
                f"({trainer.most_nodes} nodes), so it never gets a node"
            )
