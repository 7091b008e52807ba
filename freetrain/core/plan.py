"""Plans: the actions that lead from one placement to the next, safe wherever they are cut off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from freetrain.core.amounts import Amount
from freetrain.core.decision import Placement
from freetrain.core.trainer import Serving


@dataclass(frozen=True, slots=True)
class Release:
    """Take these nodes from their holders.

    Attributes:
        why: the end of a sentence for the audit; empty: a policy decided so.
        trainer: the only trainer from which they are taken; None: from all.
    """

    nodes: tuple[str, ...]
    why: str = ""
    trainer: str | None = None


@dataclass(frozen=True, slots=True)
class Lend:
    """Give these nodes to a trainer; they are free before.

    Attributes:
        limits_s: for how long at most, each of them; empty: for as long as they are idle.
        amounts: place → how much of its node it is, where that is more than the trainer's tasks ask for.
    """

    trainer: str
    nodes: tuple[str, ...]
    limits_s: tuple[float, ...] = ()
    amounts: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limit:
    """Change the time limit of what runs on these nodes; it counts from the start of their fragments."""

    nodes: tuple[str, ...]
    limit_s: float


@dataclass(frozen=True, slots=True)
class TidySubmission:
    """Bring what a trainer's owner submitted into the state that is expected between two looks."""

    trainer: str


@dataclass(frozen=True, slots=True)
class PlaceServers:
    """Let a trainer have its servers on these of its nodes, in alphabetical order; on none: it has no servers."""

    trainer: str
    nodes: tuple[str, ...]


Action = Release | TidySubmission | Limit | Lend | PlaceServers


def plan_moves(now: Placement, wanted: Placement) -> Iterator[Release | Lend]:
    """The actions from ``now`` to ``wanted``.

    Every release comes before every lend, so that after any prefix each node has at most one owner and no
    trainer has more nodes than it has now or is to have.
    """
    changing = _changing(now, wanted)
    for trainer in changing:
        if left := _without(now.get(trainer, ()), wanted.get(trainer, ())):
            yield Release(left, trainer=trainer)
    for trainer in changing:
        if gained := _without(wanted.get(trainer, ()), now.get(trainer, ())):
            yield Lend(trainer, gained)


def plan_serving(now: Serving, wanted: Serving) -> Iterator[PlaceServers]:
    """The actions that move servers; they come after those that move nodes.

    Between the two a trainer's servers are where they were, or its workers do without them: either is safe.
    """
    for trainer in _changing(now, wanted):
        yield PlaceServers(trainer, wanted.get(trainer, ()))


def _changing(now: Placement, wanted: Placement) -> list[str]:
    # Sorted, as the order of a set of names differs from process to process, and replays must not.
    return sorted(trainer for trainer in now.keys() | wanted.keys() if now.get(trainer) != wanted.get(trainer))


def _without(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    gone = set(others)
    return tuple(name for name in names if name not in gone)
