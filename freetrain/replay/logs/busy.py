"""When nodes are busy, whatever kind of log shows it; some of the machine's nodes, or more than the log names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import Holes, find_holes, taken
from freetrain.errors import InputError
from freetrain.replay.logs.machine import made_up
from freetrain.replay.logs.nodelists import NodeListError, expand

_NUMBERS = re.compile(r"[\d,\-]+")


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """When nodes are busy, a row for each node and interval.

    A job keeps all of its nodes busy for the same interval, so intervals stand beside the rows and not in them.

    Attributes:
        node_names: the nodes.
        node: position in ``node_names``, shape (rows,).
        interval: position in ``start_s`` and ``end_s``, shape (rows,).
        start_s: start of each interval; -inf where a node is busy from the first; shape (intervals,).
        end_s: its end; inf where a node is busy to the last.
    """

    node_names: tuple[str, ...]
    node: NDArray[np.int32]
    interval: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    def and_also(
        self, node: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
    ) -> BusyTimes:
        """These busy times, and behind them rows with an interval each."""
        more = np.arange(len(self.start_s), len(self.start_s) + len(node), dtype=np.int32)
        return BusyTimes(
            self.node_names,
            np.concatenate([self.node, node]),
            np.concatenate([self.interval, more]),
            np.concatenate([self.start_s, start_s]),
            np.concatenate([self.end_s, end_s]),
        )

    def holes(self, from_s: float, until_s: float) -> Holes:
        """The holes: what busy times leave of a window."""
        return find_holes(self.node_names, self.node, self.start_s, self.end_s, from_s, until_s, self.interval)


def busy_one_by_one(
    node_names: tuple[str, ...], node: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
) -> BusyTimes:
    """Busy times of which each row has an interval of its own."""
    return BusyTimes(node_names, node, np.arange(len(node), dtype=np.int32), start_s, end_s)


def select_nodes(busy: BusyTimes, wanted: str) -> tuple[BusyTimes, tuple[str, ...]]:
    """The chosen nodes alone, and a note if some of them are not in the machine.

    Args:
        busy: the whole machine.
        wanted: ClusterShell's node set, or ranges of numbers for nodes whose names are numbers.

    Raises:
        InputError: if the text is no node set or none of its nodes is in the machine.
    """
    names = set(_wanted_names(wanted))
    keep = np.array([name in names for name in busy.node_names], bool)
    found = int(keep.sum())
    if not found:
        raise InputError(
            f"--only-nodes {wanted} names no node of the machine.",
            f"Its {len(busy.node_names):,} nodes are named like {busy.node_names[0]} and {busy.node_names[-1]}.",
        )
    number = np.cumsum(keep, dtype=np.int32) - 1
    rows = taken(keep, busy.node)
    chosen = BusyTimes(
        tuple(name for name, kept in zip(busy.node_names, keep.tolist(), strict=True) if kept),
        taken(number, busy.node[rows]),
        busy.interval[rows],
        busy.start_s,
        busy.end_s,
    )
    notes = [
        f"Only {found:,} of the machine's {len(busy.node_names):,} nodes are looked at (--only-nodes {wanted})."
    ]
    if found < len(names):
        notes.append(f"{len(names) - found:,} of the nodes asked for are not in the machine.")
    return chosen, tuple(notes)


def add_always_busy(busy: BusyTimes, total: int | None) -> tuple[BusyTimes, tuple[str, ...]]:
    """Fill a machine known from node events up to its number of nodes: a node without event never became idle."""
    seen = len(busy.node_names)
    if total is None:
        note = f"The machine is taken to be the {seen:,} nodes with events; one without never became idle."
        return busy, (note,)
    if total == seen:
        return busy, ()
    if total < seen:
        raise too_small(seen, total)
    more = total - seen
    unseen = np.arange(seen, total, dtype=np.int32)
    filled = replace(
        busy.and_also(unseen, np.full(more, -np.inf), np.full(more, np.inf)),
        node_names=(*busy.node_names, *made_up("unseen", more)),
    )
    return filled, (f"{more:,} of the machine's {total:,} nodes have no events and count as busy all the time.",)


def _wanted_names(wanted: str) -> list[str]:
    numeric = _NUMBERS.fullmatch(wanted) is not None
    try:
        # A bare range set is no node set, but one in brackets is, of nodes whose names are numbers.
        return expand(f"[{wanted}]" if numeric else wanted)
    except NodeListError as error:
        raise InputError(
            f"--only-nodes cannot be read: {error}.", "Write it as 0-255, c[01-16] or c[01-16],gpu3."
        ) from None


def too_small(seen: int, total: int) -> InputError:
    """The error for a machine with fewer nodes than its log names."""
    return InputError(
        f"The log names {seen:,} nodes, but the machine is said to have {total:,}.",
        f"Give at least --nodes {seen}, or choose nodes with --only-nodes.",
    )
