"""Handing out: which of the nodes that nobody keeps each claimant gets, once their numbers are dealt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from freetrain.core.classes import Offer
from freetrain.core.topology import Topology


def hand_out(
    pool: Sequence[Offer], turns: Iterable[int], parts: Sequence[Sequence[str]], topology: Topology
) -> Iterator[tuple[str, int]]:
    """Each turn's node.

    Nodes go in the order of the pool. Of those that are free, or are not, and stay equally long, a claimant gets
    one of the leaf that has most of its nodes already; of others, one of the leaf with most left.

    Args:
        pool: nodes, the longest-lived ones first.
        turns: rows of claimants, one after the other.
        parts: what each claimant has already.
        topology: the switches.

    Returns:
        Nodes with the rows that get them.
    """
    if not topology.leaves:
        yield from zip((node.name for node in pool), turns, strict=False)
        return
    own = [Counter(map(topology.leaf_of, part)) for part in parts]
    waiting = iter(turns)
    for _, alike in groupby(pool, key=lambda node: (node.held_by is None, node.free_until_s)):
        left: defaultdict[str, list[str]] = defaultdict(list)
        for node in alike:
            left[topology.leaf_of(node.name)].append(node.name)
        while left:
            row = next(waiting, None)
            if row is None:
                return
            leaf = max(left, key=lambda leaf: (own[row][leaf], len(left[leaf]), -topology.rank_of_leaf(leaf)))
            yield left[leaf].pop(0), row
            own[row][leaf] += 1
            if not left[leaf]:
                del left[leaf]
