"""Lists of nodes as Slurm writes them. Pure."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from freetrain.core import bounds
from freetrain.core.node import Nodes
from freetrain.slurm.parsing.words import NOTHING

MOST_NODES = int(bounds.NODES.most)
"""Most nodes that a list may name: to count out a slip of the pen must take neither long nor all memory."""
# No name has what ClusterShell takes for an operator.
_NAME = re.compile(r"[^\[\],\s!&^]{1,255}")
# No bracket within brackets, no range from within a number: else each of a thousand is read to the end.
_ITEM = re.compile(r"(?:[^,\[]|\[[^\[\]]*\])+")
_IN_BRACKETS = re.compile(r"((?<!\d)\d+|)\[([^\[\]]*)\]")
# A number or a range, with a step of ClusterShell's. It reads more than that, 999[-3] as 999-9993 for instance.
_PIECE = re.compile(r"(\d+)(?:-(\d+)(?:/\d+)?)?")
# Blanks may stand beside commas. Within an item ClusterShell takes them for letters of one long name.
_GAP = re.compile(r"[^\s,\[]\s+[^\s,\]]")


def expand_nodes(text: str) -> Nodes:
    """The nodes of a list such as ``c[01-16,20]``, as Slurm prints it; ``n1;n2`` would be one name.

    Lists that people write are for ``slurm/node_groups.py``, which refuses such a name.

    Raises:
        ValueError: it is no list of nodes, or names too many.
    """
    if text in NOTHING:
        return frozenset()
    if "[" not in text and "," not in text:
        if not _NAME.fullmatch(text):
            raise _no_list(text)
        return frozenset((text,))
    return _expanded(text)


# Those of partitions come again and again. Not many: each may name thousands, and jobs go by for years.
@lru_cache(maxsize=1024)
def _expanded(text: str) -> Nodes:
    if _GAP.search(text):
        raise _no_list(text)
    require_countable(text)
    try:
        # ClusterShell makes new strings of names that thousands of lists have in common.
        return frozenset(map(sys.intern, NodeSet(text, resolver=RESOLVER_NOGROUP)))
    # ClusterShell asserts that ranges are not too large.
    except (NodeSetException, AssertionError, ValueError) as error:
        raise _no_list(text) from error


def _no_list(text: str) -> ValueError:
    return ValueError(f"no list of nodes: {text[:60]!r}")


def require_countable(text: str) -> None:
    """Refuse a list by the numbers in its brackets, as to count it out might take all memory.

    Raises:
        ValueError: it names too many nodes, or has something else in its brackets than numbers.
    """
    named = 0
    for item in _ITEM.findall(text):
        in_brackets = [
            (digits, [_PIECE.fullmatch(piece.strip()) for piece in pieces.split(",")])
            for digits, pieces in _IN_BRACKETS.findall(item)
        ]
        if not all(all(pieces) for _, pieces in in_brackets):
            raise _no_list(text)
        # Brackets in one item multiply each other.
        named += math.prod(_named(digits, filter(None, pieces)) for digits, pieces in in_brackets)
    if named > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES:,} nodes in {text[:60]!r}")


def _named(digits: str, pieces: Iterable[re.Match[str]]) -> int:
    """Number of names in a pair of brackets, with digits before it: ClusterShell reads 3[1-20] as 31-320."""
    return sum(_span(digits + piece[1], digits + piece[2]) if piece[2] else 1 for piece in pieces)


def _span(low: str, high: str) -> int:
    # Digits without end are not read: int() takes quadratic time, and refuses more than 4,300.
    return MOST_NODES + 1 if max(len(low), len(high)) > 18 else max(1, int(high) - int(low) + 1)


def fold_nodes(names: Iterable[str]) -> str:
    """The shortest list of these nodes."""
    in_order = sorted(names)
    try:
        return str(NodeSet.fromlist(in_order, resolver=RESOLVER_NOGROUP))
    except NodeSetException:  # more digits than it counts with
        return ",".join(in_order)
