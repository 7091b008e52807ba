"""Shared nodes, and what new parts of them could have beside what they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import WaitProfile

_NOTHING_SEEN = WaitProfile()


@dataclass(frozen=True, slots=True)
class NewPart:
    """A part of a node that is about to be lent.

    Attributes:
        place: its name.
        trainer: whose it is.
        asks: what its task asks for, and has in any case.
        data_wait_share: part of a step that its training waits for data with what it asks for.
        cache_mb: memory beyond what it asks for with which its training would read all data from memory; 0: its
            owner says of none.
        profile: how long it waits with other CPUs and memory, as far as that was seen.
    """

    place: str
    trainer: str
    asks: Amount
    data_wait_share: float
    cache_mb: int = 0
    profile: WaitProfile = _NOTHING_SEEN


@dataclass(frozen=True, slots=True)
class SharedNode:
    """A node of which new parts are lent.

    Attributes:
        name: its name.
        spare: what is left of it when all new parts have what they ask for.
        free_gpus: free ones, those of the new parts among them.
        threads_per_core: Slurm gives whole cores.
        parts: the new ones.
    """

    name: str
    spare: Amount
    free_gpus: int
    threads_per_core: int
    parts: tuple[NewPart, ...]
