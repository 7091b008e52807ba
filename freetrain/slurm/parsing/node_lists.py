"""Lists of nodes as Slurm writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

from freetrain.core.node import Nodes
from freetrain.slurm.parsing.words import NOTHING


@lru_cache(maxsize=65536)
def expand_nodes(text: str) -> Nodes:
    """The nodes of a list such as ``c[01-16,20]``; the same lists come again in every cycle.

    Raises:
        ValueError: it is no list of nodes.
    """
    if text in NOTHING:
        return frozenset()
    if "[" not in text and "," not in text:
        return frozenset((text,))
    try:
        return frozenset(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as error:
        raise ValueError(f"no list of nodes: {text[:60]!r}") from error


def fold_nodes(names: Iterable[str]) -> str:
    """The shortest list of these nodes."""
    return str(NodeSet.fromlist(sorted(names), resolver=RESOLVER_NOGROUP))
