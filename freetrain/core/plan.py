"""Plans: the actions that lead from one placement to the next, safe wherever they are cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freetrain.core.placement import Placement


@dataclass(frozen=True, slots=True)
class Release:
    """Take these nodes from a trainer."""

    trainer: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lend:
    """Give these nodes to a trainer; nobody else has them any more."""

    trainer: str
    nodes: tuple[str, ...]


Action = Release | Lend


def plan_moves(now: Placement, wanted: Placement) -> Iterator[Action]:
    """The actions from ``now`` to ``wanted``.

    Every release comes before every lend, so that after any prefix each node has at most one owner and no
    trainer has more nodes than it has now or is to have.
    """
    changing = sorted(trainer for trainer in now.keys() | wanted.keys() if now.get(trainer) != wanted.get(trainer))
    for trainer in changing:
        if left := _without(now.get(trainer, ()), wanted.get(trainer, ())):
            yield Release(trainer, left)
    for trainer in changing:
        if gained := _without(wanted.get(trainer, ()), now.get(trainer, ())):
            yield Lend(trainer, gained)


def _without(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    gone = set(others)
    return tuple(name for name in names if name not in gone)
