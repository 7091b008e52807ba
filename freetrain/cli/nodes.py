"""``freetrain nodes``: what may be lent just now, what is, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.options import config_option
from freetrain.cli.output import NOTHING, print_json, print_table, show_time
from freetrain.cli.standing import find_standing
from freetrain.config import Config, ConfigError, load_config
from freetrain.core.cluster import NodeState, Snapshot
from freetrain.core.fragment import Fragment
from freetrain.daemon.admission.checks import read_settings
from freetrain.daemon.drains import read_drains, reasons
from freetrain.daemon.setup import launcher_of, rules_of
from freetrain.daemon.status import NodeGroup, gathered, groups_of
from freetrain.lending.offers import find_offers, shadow_of
from freetrain.lending.reconcile import find_strangers
from freetrain.lending.rules import NodeRules
from freetrain.lending.sightings import Sightings
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import expand_nodes

_WITHOUT_DAEMON = "could be lent, if a daemon were at work"


@click.command("nodes")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def nodes_command(config_path: Path | None, as_json: bool) -> None:
    """Say of each node of the partition whether it may be lent, until when, to whom it is, or why not.

    This is what the daemon found at its last look, and what Slurm says has changed since. Where no daemon is at
    work nobody knows how long a node has been idle, or for whom it would be kept free. Anybody may ask.
    """
    config = load_config(config_path).config
    standing = find_standing(config)
    if not as_json:
        for line in standing.lines():
            click.echo(line)
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    snapshot, partition = gateway.snapshot(), config.slurm.partition
    if partition not in snapshot.partitions:
        raise ConfigError(f"Slurm has no partition {partition}.", "Set slurm.partition.")
    running = _running_fragments(snapshot, config, gateway)
    if standing.look:
        groups = _brought_up_to_date(standing.look.nodes, snapshot, running)
    else:
        drained = reasons(read_drains(Path(config.state.directory), snapshot.time_s))
        rules = rules_of(config, read_settings(gateway)).nodes
        groups = _judged_here(snapshot, running, rules, drained)
    if as_json:
        rows = [
            {
                "nodes": sorted(expand_nodes(each.nodes)),
                "state": each.state,
                "trainer": each.trainer or None,
                "why": each.why,
                "until": each.until_s,
            }
            for each in groups
        ]
        print_json({"format": "freetrain-nodes/2", "daemon": standing.document(), "nodes": rows})
    else:
        _print(groups)


def _running_fragments(snapshot: Snapshot, config: Config, gateway: Gateway) -> Sequence[Fragment]:
    launcher = launcher_of(config, gateway)
    of_ours = [
        (job, trainer)
        for job in snapshot.jobs
        if job.partition == config.slurm.partition and (trainer := launcher.of_trainer(job)) is not None
    ]
    return find_strangers([], of_ours)


def _brought_up_to_date(
    groups: Iterable[NodeGroup], snapshot: Snapshot, running: Iterable[Fragment]
) -> Sequence[NodeGroup]:
    """What the daemon found, but for the fragments and jobs that have started or ended since."""
    trainer_on = {fragment.node: fragment.trainer for fragment in running}
    verdicts = {name: each for each in groups for name in expand_nodes(each.nodes)}
    for name, verdict in verdicts.items():
        trainer, node = trainer_on.get(name, ""), snapshot.node.get(name)
        if trainer and verdict.state in ("free", "asked for"):
            verdicts[name] = replace(verdict, state="lent", trainer=trainer)
        elif not trainer and verdict.state == "lent":
            verdicts[name] = NodeGroup("", "not lent", why=f"the fragment of {verdict.trainer} has just ended")
        elif verdict.state == "free" and node is not None and node.state is not NodeState.IDLE:
            verdicts[name] = NodeGroup("", "not lent", why=f"Slurm says {node.said}")
    return gathered(verdicts)


def _judged_here(
    snapshot: Snapshot, running: Sequence[Fragment], rules: NodeRules, drained: Mapping[str, str]
) -> Sequence[NodeGroup]:
    """What Slurm alone tells: nothing that is free will be lent before a daemon is at work."""
    seen = Sightings()
    shadow = shadow_of(snapshot, running, rules, seen)
    groups = groups_of(find_offers(snapshot, running, shadow, rules, seen, drained), running)
    return [
        replace(each, state="not lent", why=_WITHOUT_DAEMON) if each.state == "free" else each for each in groups
    ]


def _print(groups: Iterable[NodeGroup]) -> None:
    print_table(
        ("NODES", "COUNT", "STATE", "UNTIL", "WHY"),
        [
            (
                each.nodes,
                str(len(expand_nodes(each.nodes))),
                _state(each),
                show_time(each.until_s),
                each.why or NOTHING,
            )
            for each in groups
        ],
        right=("COUNT",),
    )


def _state(group: NodeGroup) -> str:
    if not group.trainer:
        return group.state
    words = {"lent": "lent to", "asked for": "asked for", "due back": "due back from"}
    return f"{words.get(group.state, group.state)} {group.trainer}"
