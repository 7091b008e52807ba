"""``freetrain nodes`` and ``freetrain holes``: what may be lent just now, what is, and why not the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.node_groups import WITHOUT_DAEMON, find_node_groups
from freetrain.cli.options import config_option
from freetrain.config import load_config
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.reports.status import NodeGroup
from freetrain.durations import show_duration
from freetrain.showing.words import NOTHING, show_time
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import expand_nodes

Row = tuple[str, ...]

_NODE_COLUMNS = ("NODES", "COUNT", "STATE", "UNTIL", "WHY")
_HOLE_COLUMNS = ("NODES", "COUNT", "UNTIL", "LASTS", "STATE")


@command("nodes", context_settings=LISTING, first=("--holes", "--json", "--format", "--noheader", "--config"))
@click.option(
    "--holes",
    is_flag=True,
    help="Only nodes that the site's own jobs leave idle, lent ones too, and for how long; those wanted soonest "
    "come first.",
)
@listing_options
@config_option
def nodes_command(config_path: Path | None, holes: bool, shape: Shape) -> None:
    """List the nodes of the partition: lent or free, until when, or why they are not lent.

    This is what the daemon found at its last look, and what Slurm says has changed since. Where no daemon is at
    work nobody knows how long a node has been idle, or which job it would be kept for. A hole has no end where
    nobody knows who will want it. Anybody may ask.
    """
    if holes:
        _list(config_path, shape, "holes", _holes, _HOLE_COLUMNS, _hole_row)
    else:
        _list(config_path, shape, "nodes", lambda groups, now_s: groups, _NODE_COLUMNS, _node_row)


@command("holes", context_settings=LISTING, hidden=True)
@listing_options
@config_option
def holes_command(config_path: Path | None, shape: Shape) -> None:
    """List the holes: the former name of 'freetrain nodes --holes'."""
    _list(config_path, shape, "holes", _holes, _HOLE_COLUMNS, _hole_row)


def _list(
    config_path: Path | None,
    shape: Shape,
    what: str,
    chosen: Callable[[Sequence[NodeGroup], float], Sequence[NodeGroup]],
    columns: Sequence[str],
    row: Callable[[NodeGroup, float], Row],
) -> None:
    config = load_config(config_path).config
    standing = find_standing(config)
    shape.begin(standing)
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout, in_parts=config.lend.in_parts)
    groups = chosen(find_node_groups(config, standing, gateway), standing.now_s)
    document = {
        "format": f"freetrain-{what}/{2 if what == 'nodes' else 1}",
        "daemon": standing.document(),
        what: [_document(group) for group in groups],
    }
    rows = [row(group, standing.now_s) for group in groups]
    otherwise = f"There are no {what} in partition {config.slurm.partition}."
    shape.print(document, columns, rows, right=("COUNT", "LASTS"), otherwise=otherwise)


def _node_row(group: NodeGroup, now_s: float) -> Row:
    count = str(len(expand_nodes(group.nodes)))
    return (group.nodes, count, _state(group), show_time(group.until_s), group.why or NOTHING)


def _hole_row(group: NodeGroup, now_s: float) -> Row:
    count = str(len(expand_nodes(group.nodes)))
    lasts = NOTHING if group.until_s is None else show_duration(max(0.0, group.until_s - now_s))
    return (group.nodes, count, show_time(group.until_s), lasts, _state(group))


def _holes(groups: Sequence[NodeGroup], now_s: float) -> Sequence[NodeGroup]:
    idle = [
        group
        for group in groups
        if group.state in ("free", "lent", "asked for", "due back") or group.why == WITHOUT_DAEMON
    ]
    return sorted(idle, key=lambda each: (inf if each.until_s is None else each.until_s, each.nodes))


def _document(group: NodeGroup) -> dict[str, object]:
    return {
        "nodes": sorted(expand_nodes(group.nodes)),
        "state": group.state,
        "trainer": group.trainer or None,
        "why": group.why,
        "verdict": group.verdict or None,
        "until": group.until_s,
    }


def _state(group: NodeGroup) -> str:
    if not group.trainer:
        return group.state
    words = {"lent": "lent to", "asked for": "asked for", "due back": "due back from"}
    return f"{words.get(group.state, group.state)} {group.trainer}"
