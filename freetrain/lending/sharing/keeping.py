"""Which of its places a claimant keeps that must give up some."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from freetrain.core.place import Place
from freetrain.lending.sharing.claims import SizeRange


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
