"""``freetrain nodes`` and ``freetrain holes``: nodes that may be lent now or are lent, and why others are not.

The state of each node is that of the daemon's last look, brought up to date by Slurm, or Slurm's alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from math import inf

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape
from freetrain.cli.options import option
from freetrain.cli.site import SiteContext
from freetrain.client.documents import nodes_entry
from freetrain.config import Config, ConfigError
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.node import Node, NodeState
from freetrain.daemon.admission.admission import read_settings
from freetrain.daemon.controls.site_orders import read_orders
from freetrain.daemon.reports.look_status import gathered, groups_of
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import NodeGroup
from freetrain.daemon.rules import rules_of
from freetrain.daemon.setup import launcher_of
from freetrain.durations import show_duration
from freetrain.lending.facts import Facts
from freetrain.lending.judge import shadow_of
from freetrain.lending.memory import Memory
from freetrain.lending.node_verdicts import NodeContext, judge_nodes
from freetrain.lending.reconcile import find_strangers
from freetrain.lending.rooms import find_rooms
from freetrain.lending.sightings import Sightings
from freetrain.showing.words import NOTHING, show_time
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import jobs_of_trainers
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import expand_nodes

_NODE_COLUMNS = ("NODES", "COUNT", "STATE", "UNTIL", "WHY")
_HOLE_COLUMNS = ("NODES", "COUNT", "UNTIL", "LASTS", "STATE")


@command("nodes", context_settings=LISTING, first=("--holes", "--json", "--format", "--noheader", "--config"))
def nodes_command(
    *,
    holes: bool = option(
        "--holes",
        "Only nodes that the site's own jobs leave idle, lent ones too, and for how long; those wanted soonest "
        "come first.",
    ),
    shape: Shape,
    site: SiteContext,
) -> None:
    """List the nodes of the partition: lent or free, until when, or why they are not lent.

    This is what the daemon found at its last look, and what Slurm says has changed since. Where no daemon is at
    work nobody knows how long a node has been idle, or which job it would be kept for. A hole has no end where
    nobody knows who will want it. Anybody may ask.
    """
    _list(site, shape, holes)


@command("holes", context_settings=LISTING, hidden=True)
def holes_command(shape: Shape, site: SiteContext) -> None:
    """List the holes: the former name of 'freetrain nodes --holes'."""
    _list(site, shape, holes=True)


def _list(site: SiteContext, shape: Shape, holes: bool) -> None:
    config, standing = site.config, site.standing
    shape.begin(standing)
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout, in_parts=config.lend.in_parts)
    groups = find_node_groups(config, standing, gateway)
    if holes:
        idle = (
            group
            for group in groups
            if group.state in ("free", "lent", "asked for", "due back") or group.why == WITHOUT_DAEMON
        )
        groups = sorted(idle, key=lambda group: (inf if group.until_s is None else group.until_s, group.nodes))
    what, version = ("holes", 1) if holes else ("nodes", 2)
    entries = {what: [asdict(nodes_entry(group)) for group in groups]}
    columns = _HOLE_COLUMNS if holes else _NODE_COLUMNS
    rows = [_row(group, standing.now_s, holes) for group in groups]
    otherwise = f"There are no {what} in partition {config.slurm.partition}."
    document = site.document(f"freetrain-{what}/{version}", **entries)
    shape.print(document, columns, rows, right=("COUNT", "LASTS"), otherwise=otherwise)


def _row(group: NodeGroup, now_s: float, holes: bool) -> tuple[str, ...]:
    count, until = str(len(expand_nodes(group.nodes))), show_time(group.until_s)
    if not holes:
        return (group.nodes, count, group.state_text, until, group.why or NOTHING)
    lasts = NOTHING if group.until_s is None else show_duration(max(0.0, group.until_s - now_s))
    return (group.nodes, count, until, lasts, group.state_text)


_FREE = {False: {NodeState.IDLE}, True: {NodeState.IDLE, NodeState.BUSY}}
"""States of nodes that may be lent; True: in parts."""

# These reasons come from Slurm alone, so that they can be checked again without the daemon.
_FOUND_BY_SLURM = re.compile(r"job (?P<job>\S+) runs here$|Slurm says (?P<state>\S+)$")

WITHOUT_DAEMON = "could be lent, if a daemon were at work"


def find_node_groups(config: Config, standing: Standing, gateway: Gateway) -> Sequence[NodeGroup]:
    """Groups of all nodes of the partition.

    Raises:
        ConfigError: Slurm has no such partition.
        SlurmError: Slurm does not answer.
    """
    snapshot = gateway.snapshot()
    if missing := config.slurm.queue.missing(snapshot.partitions):
        raise ConfigError(f"Slurm has no partition {missing}.", "Set slurm.partition.")
    launcher = launcher_of(config, gateway)
    running = find_strangers(jobs_of_trainers(snapshot, config.slurm.queue, launcher))
    if standing.look:
        return _brought_up_to_date(standing.look.nodes, snapshot, running, config.lend.in_parts)
    facts = Facts(snapshot, tuple(running), orders=read_orders(config.state, snapshot.time_s))
    rules = rules_of(config, read_settings(gateway)).nodes
    shadow = shadow_of(facts, rules, Sightings())
    rooms, _ = find_rooms(facts, rules)
    groups = groups_of(judge_nodes(NodeContext(facts, Memory(), shadow, rules, rooms)), facts.fragments)
    # By Slurm alone: no node that is free will be lent before a daemon is at work.
    return [
        replace(group, state="not lent", why=WITHOUT_DAEMON) if group.state == "free" else group
        for group in groups
    ]


def _brought_up_to_date(
    groups: Iterable[NodeGroup], snapshot: Snapshot, running: Sequence[Fragment], in_parts: bool
) -> Sequence[NodeGroup]:
    trainer_on = {fragment.node: fragment.trainer for fragment in running}
    ours = {fragment.job for fragment in running}
    jobs_on: defaultdict[str, list[str]] = defaultdict(list)
    # Nodes that are lent in parts are lent beside the jobs of others.
    for job in () if in_parts else snapshot.jobs:
        if job.state.has_nodes and job.id not in ours:
            for name in job.nodes:
                jobs_on[name].append(job.id)
    verdicts = {name: group for group in groups for name in expand_nodes(group.nodes)}
    # Whose values are replaced meanwhile, and whose keys stay
    for name, verdict in verdicts.items():
        trainer, node = trainer_on.get(name, ""), snapshot.node.get(name)
        if trainer and (verdict.state, verdict.trainer) != ("due back", trainer):
            verdicts[name] = replace(verdict, state="lent", trainer=trainer, why="")
        elif not trainer and verdict.state in ("lent", "due back"):
            verdicts[name] = NodeGroup("", "not lent", why=f"the fragment of {verdict.trainer} has just ended")
        elif node is not None and (why := _another_reason(verdict, node, jobs_on.get(name, ()), in_parts)):
            verdicts[name] = NodeGroup("", "not lent", why=why)
    return gathered(verdicts)


def _another_reason(verdict: NodeGroup, node: Node, jobs: Sequence[str], in_parts: bool) -> str:
    """Reason why a node is lent to nobody, where the daemon's finding holds no more; empty: it holds."""
    found = _FOUND_BY_SLURM.match(verdict.why)
    if verdict.state == "free":
        is_as_found = node.state in _FREE[in_parts]
    else:
        is_as_found = found is None or found["job"] in jobs or found["state"] == node.state_text
    if is_as_found:
        return ""
    if jobs:
        return f"job {jobs[0]} runs here"
    if node.state is not NodeState.IDLE or not node.may_be_lent or found is None:
        return f"Slurm says {node.state_text}"
    if found["job"]:
        return f"job {found['job']} has just ended"
    return f"Slurm showed {found['state']} a moment ago"
