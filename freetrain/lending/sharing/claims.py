"""Claimants and what they want, what came of it, and which of their places they keep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf

from freetrain.core.amounts import Amount
from freetrain.core.place import Place


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A trainer, as far as dealing is concerned.

    Attributes:
        trainer: its id.
        min_nodes: fewest nodes that it can use.
        max_nodes: most nodes that it would take.
    """

    trainer: str
    min_nodes: int
    max_nodes: int


cached_range = lru_cache(maxsize=65536)(SizeRange)
"""Wants are the same from look to look, but for a few."""


@dataclass(frozen=True)
class Claimant:
    """One user's trainers that may use the same nodes.

    Attributes:
        key: names it.
        path: which shares it is part of, outermost first, as ("account ml", "user alice").
        wants: its trainers; those at the end lose their nodes first.
        eligible: the nodes that it may use; claimants with the same needs should have the same object.
        each: how much of a node each of its tasks takes; None: all of it.
        places: no more than so many of its tasks can be placed; None: one on each node that it may use.
        worth: what one of its places counts as, in nodes.
        decided_with: what those have in common whose nodes are divided among them together; None: nobody else.
        most: most places that it takes in all.
        capped_by: the limits that count its nodes.
        settled: places of its trainers that it keeps whatever the others' shares are; they count as the others.
    """

    key: Hashable
    path: tuple[str, ...]
    wants: tuple[SizeRange, ...]
    eligible: frozenset[str]
    most: float = inf
    capped_by: tuple[str, ...] = ()
    each: Amount | None = None
    places: int | None = None
    worth: float = 1.0
    decided_with: Hashable = None
    settled: tuple[str, ...] = ()

    @cached_property
    def sizes(self) -> int:
        """The numbers of places that its trainers can use together, as bits."""
        places = len(self.eligible) if self.places is None else self.places
        return usable_sizes(self.wants, int(min(self.most, places)))


@dataclass(frozen=True)
class Shares:
    """How the site wants nodes shared.

    Attributes:
        weight: member of a path → its weight against others of the same place; 1 where it is missing.
        used: member of a path → what it had before; of equals, the one that had least comes first.
        caps: limit → most nodes.
    """

    weight: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    caps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Deal:
    """The answer.

    Attributes:
        places: key of a claimant → its places: those that are settled, then longest-lived first within each kind.
        leaving: place that its holder has to give up → key of the claimant that gets it; None: nobody does.
        new: those places that are parts of nodes and that nobody has yet.
    """

    places: Mapping[Hashable, tuple[str, ...]]
    leaving: Mapping[str, Hashable | None]
    new: tuple[Place, ...] = ()


def usable_sizes(wants: Iterable[SizeRange], most: int) -> int:
    """Numbers of nodes, ``most`` at most, that add up from sizes of some of the trainers: bit n stands for n."""
    mask = (1 << (most + 1)) - 1
    sums = 1
    for want in wants:
        min_nodes, largest = max(want.min_nodes, 1), min(want.max_nodes, most)
        if min_nodes <= largest:
            sums |= _shifted_by(sums, min_nodes, largest) & mask
        if sums == mask:  # all of them can be used, whatever follows
            break
    return sums


def _shifted_by(bits: int, min_nodes: int, most: int) -> int:
    """``bits`` shifted by each of ``min_nodes`` … ``most``, all together."""
    spread, width, wanted = bits << min_nodes, 1, most - min_nodes + 1
    while width < wanted:
        step = min(width, wanted - width)
        spread |= spread << step
        width += step
    return spread


def keep(
    held: Sequence[Place], count: int, wants: Sequence[SizeRange], sizes: Counter[str | None]
) -> tuple[list[str], list[str]]:
    """The nodes, longest-lived first, that a claimant keeps of those it holds, and those that it gives up.

    A trainer far above its minimum gives up nodes first; where none is above it, one trainer gives up all.

    Args:
        held: longest-lived first.
        count: how many it keeps.
        wants: its trainers.
        sizes: nodes that each trainer still has, of all kinds; kept up to date.
    """
    if len(held) <= count:
        return [node.name for node in held], []
    of_trainer: defaultdict[str | None, list[Place]] = defaultdict(list)
    for node in held:
        of_trainer[node.holder].append(node)
    order = {want.trainer: (number, want.min_nodes) for number, want in enumerate(wants)}

    def gives_first(trainer: str | None) -> tuple[int, bool, int]:
        number, min_nodes = order[str(trainer)]
        spare = sizes[trainer] - min_nodes
        return max(spare, 0), spare < 0, number

    given_up = []
    for _ in range(len(held) - count):
        trainer = max(of_trainer, key=gives_first)
        given_up.append(of_trainer[trainer].pop().name)
        sizes[trainer] -= 1
        if not of_trainer[trainer]:
            del of_trainer[trainer]
    gone = set(given_up)
    return [node.name for node in held if node.name not in gone], given_up
