"""Node lists such as ``c[01-16],gpu3``: from text to positions in the machine."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException
from numpy.typing import NDArray

MAX_NODES = 1_000_000
MAX_LISTED = 200_000
"""Most nodes that a job's list names: no machine that exists has so many."""
_LISTS_AT_ONCE = 1 << 16
"""Lists that are read at once: where their nodes stand takes eight bytes a node for a moment."""
_ITEM = re.compile(r"([A-Za-z0-9_.\-]+)(?:\[([0-9,\-]+)\])?(?:,(?=.)|$)")
_PIECE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_RANGE = re.compile(r"(\d{1,20})-(\d{1,20})")
_LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
# NodeSet reads ranges of negative numbers, too; no node's name holds them.
_NEGATIVE = re.compile(r"[\[,]-|--\d")
# NodeSet reads !&^@* and blanks as operators; no node's name holds them.
_NODE_SET = re.compile(r"[A-Za-z0-9_.\-,\[\]/:]+")


class NodeListError(ValueError):
    """A node list that cannot be read; the message says why."""


def expand(text: str, most: int = MAX_NODES) -> list[str]:
    """The nodes that a list names: nested, many-dimensional, whatever ClusterShell reads.

    Raises:
        NodeListError: if it cannot be read or names more than ``most`` nodes.
    """
    # Judged before anything is counted out: that would take time and memory.
    if any(int(high) - int(low) >= most for low, high in _RANGE.findall(text)):
        raise _too_many(text, most)
    if not _NODE_SET.fullmatch(text) or _NEGATIVE.search(text):
        raise NodeListError(f"node list {_short(text)} cannot be read")
    try:
        nodes = NodeSet(text, resolver=RESOLVER_NOGROUP)
        if len(nodes) > most:
            raise _too_many(text, most)
        return [str(node) for node in nodes]
    # ClusterShell even fails an assertion at some texts. Our own error is a ValueError, too.
    except (NodeSetException, RangeSetException, ValueError, AssertionError) as error:
        if isinstance(error, NodeListError):
            raise
        raise NodeListError(f"node list {_short(text)} cannot be read") from None


class NodeIndex:
    """Positions of nodes by name; grows with each new name unless the machine is closed."""

    def __init__(self, names: Iterable[str] = (), closed: bool = False) -> None:
        self.position = {name: position for position, name in enumerate(names)}
        self.closed = closed
        self._memo: dict[tuple[str, str], tuple[int, ...]] = {}

    def positions(self, text: str, most: int = MAX_LISTED) -> Sequence[int]:
        """Positions of the nodes that a list names; NodeListError if it cannot be read or names too many."""
        if not text:
            raise NodeListError("ran but names no nodes")
        if text in self.position:
            return (self.position[text],)
        # Four bytes a node: lists of a large log name hundreds of millions.
        found = array("i")
        at = 0
        while at < len(text):
            item = _ITEM.match(text, at)
            if item is None:
                return [self._of(name) for name in expand(text, most)]
            prefix, pieces = item.groups()
            if pieces is None:
                found.append(self._of(prefix))
            else:
                for piece in pieces.split(","):
                    room = most - len(found)
                    known = self._memo.get((prefix, piece)) or self._piece(prefix, piece, text, room, most)
                    found.extend(known)
            at = item.end()
        if len(found) > most:
            raise _too_many(text, most)
        return found

    def _piece(self, prefix: str, piece: str, text: str, room: int, most: int) -> tuple[int, ...]:
        """Positions of ``prefix[piece]``; a million lists repeat the same few thousand pieces."""
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise NodeListError(f"node list {_short(text)} cannot be read")
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low) or len(high) < len(low):
            raise NodeListError(f"node list {_short(text)} counts backwards")
        numbers = range(int(low), int(high) + 1)
        if len(numbers) > room:
            raise _too_many(text, most)
        found = tuple(self._of(f"{prefix}{number:0{len(low)}d}") for number in numbers)
        self._memo[prefix, piece] = found
        return found

    def _of(self, name: str) -> int:
        position = self.position.get(name)
        if position is None:
            if self.closed:
                raise NodeListError(f"node {name!r} is not in the machine")
            position = self.position[name] = len(self.position)
        return position


@dataclass(frozen=True, slots=True)
class NodeLists:
    """Many lists at once: list i names ``node[begin[i] : begin[i + 1]]``; ``bad`` tells why a list names none."""

    begin: NDArray[np.int64]
    node: NDArray[np.int32]
    bad: dict[int, str]


def read_node_lists(texts: Iterable[str], index: NodeIndex, most: Iterable[int] = repeat(MAX_LISTED)) -> NodeLists:
    """Read lists; those that cannot be read, or name more than ``most`` nodes, are empty and named in ``bad``."""
    node, begin, bad = array("i"), array("q", [0]), {}
    for number, (text, limit) in enumerate(zip(texts, most, strict=False)):
        try:
            node.extend(index.positions(text, limit))
        except NodeListError as error:
            bad[number] = str(error)
        begin.append(len(node))
    return NodeLists(np.array(begin, np.int64), np.array(node, np.int32), bad)


def gathered(lists: NodeLists, which: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The nodes of some of the lists, list after list, and how many each has."""
    count = np.diff(lists.begin)[which]
    upto = np.cumsum(count)
    node = np.empty(count.sum(), np.int32)
    for first in range(0, len(which), _LISTS_AT_ONCE):
        some = slice(first, first + _LISTS_AT_ONCE)
        from_node = int(upto[first] - count[first])
        # Each node's position among all, by counting through and stepping to where the next list begins.
        step = np.repeat(lists.begin[which[some]] - (upto[some] - count[some]), count[some])
        place = np.arange(from_node, from_node + len(step)) + step
        node[from_node : from_node + len(step)] = lists.node[place]
    return node, count


def spelled_twice(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names that differ from an earlier one in capitals or leading zeros alone, or from any in a domain."""
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        other = first.setdefault(_LEADING_ZEROS.sub("", name.lower()), name)
        if other != name:
            pairs.append((other, name))
    hosts = ((plain.partition(".")[0], name) for plain, name in first.items() if "." in plain)
    return pairs + [(first[host], name) for host, name in hosts if host in first]


def _too_many(text: str, most: int) -> NodeListError:
    return NodeListError(f"node list {_short(text)} names more than {most:,} node{'s' * (most != 1)}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
