"""Choosing some of a machine's nodes, and adding those that a log never names."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from freetrain.core.holes import taken
from freetrain.errors import InputError
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.machine import made_up
from freetrain.replay.logs.nodelists import NodeListError, expand

_NUMBERS = re.compile(r"[\d,\-]+")


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
        raise InputError(
            f"The log names {seen:,} nodes, but the machine is said to have {total:,}.",
            f"Give at least --nodes {seen}, or choose nodes with --only-nodes.",
        )
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
