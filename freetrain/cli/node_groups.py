"""What becomes of each node, of the daemon's last look brought up to date by Slurm, or of Slurm alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from freetrain.config import Config, ConfigError
from freetrain.core.cluster import NodeState, Snapshot
from freetrain.core.fragment import Fragment
from freetrain.daemon.admission.checks import read_settings
from freetrain.daemon.controls.drains import read_drains, reasons
from freetrain.daemon.reports.node_groups import gathered, groups_of
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import NodeGroup
from freetrain.daemon.rules import rules_of
from freetrain.daemon.setup import launcher_of
from freetrain.lending.offers import find_offers, shadow_of
from freetrain.lending.reconcile import find_strangers
from freetrain.lending.rooms import find_rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.sightings import Sightings
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import expand_nodes

_FREE = {False: {NodeState.IDLE}, True: {NodeState.IDLE, NodeState.BUSY}}
"""States of nodes that may be lent; True: in parts."""

_WITHOUT_DAEMON = "could be lent, if a daemon were at work"


def find_node_groups(config: Config, standing: Standing, gateway: Gateway) -> Sequence[NodeGroup]:
    """Every node of the partition.

    Args:
        config: the settings.
        standing: how the daemon stands.
        gateway: the way to Slurm.

    Raises:
        ConfigError: Slurm has no such partition.
        SlurmError: Slurm does not answer.
    """
    snapshot = gateway.snapshot()
    if missing := config.slurm.queue.missing(snapshot.partitions):
        raise ConfigError(f"Slurm has no partition {missing}.", "Set slurm.partition.")
    running = _running_fragments(snapshot, config, gateway)
    if standing.look:
        return _brought_up_to_date(standing.look.nodes, snapshot, running, config.lend.in_parts)
    drained = reasons(read_drains(Path(config.state.directory), snapshot.time_s))
    rules = rules_of(config, read_settings(gateway)).nodes
    return _judged_here(snapshot, running, rules, drained)


def _running_fragments(snapshot: Snapshot, config: Config, gateway: Gateway) -> Sequence[Fragment]:
    launcher = launcher_of(config, gateway)
    of_ours = [
        (job, trainer)
        for job in snapshot.jobs
        if config.slurm.queue.has(job) and (trainer := launcher.of_trainer(job)) is not None
    ]
    return find_strangers([], of_ours)


def _brought_up_to_date(
    groups: Iterable[NodeGroup], snapshot: Snapshot, running: Iterable[Fragment], in_parts: bool
) -> Sequence[NodeGroup]:
    """What the daemon found, but for the fragments and jobs that have started or ended since."""
    trainer_on = {fragment.node: fragment.trainer for fragment in running}
    verdicts = {name: each for each in groups for name in expand_nodes(each.nodes)}
    for name, verdict in verdicts.items():
        trainer, node = trainer_on.get(name, ""), snapshot.node.get(name)
        if trainer and (verdict.state, verdict.trainer) != ("due back", trainer):
            verdicts[name] = replace(verdict, state="lent", trainer=trainer, why="")
        elif not trainer and verdict.state in ("lent", "due back"):
            verdicts[name] = NodeGroup("", "not lent", why=f"the fragment of {verdict.trainer} has just ended")
        elif verdict.state == "free" and node is not None and node.state not in _FREE[in_parts]:
            verdicts[name] = NodeGroup("", "not lent", why=f"Slurm says {node.said}")
    return gathered(verdicts)


def _judged_here(
    snapshot: Snapshot, running: Sequence[Fragment], rules: NodeRules, drained: Mapping[str, str]
) -> Sequence[NodeGroup]:
    """What Slurm alone tells: nothing that is free will be lent before a daemon is at work."""
    seen = Sightings()
    shadow = shadow_of(snapshot, running, rules, seen)
    rooms = find_rooms(snapshot, running, {}, rules)
    groups = groups_of(find_offers(snapshot, running, shadow, rules, seen, drained, rooms), running)
    return [
        replace(each, state="not lent", why=_WITHOUT_DAEMON) if each.state == "free" else each for each in groups
    ]
