"""``freetrain nodes``: what may be lent just now, what is, and why not the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.daemons_ledger import readable_ledger
from freetrain.cli.options import config_option
from freetrain.cli.output import NOTHING, print_json, print_table, show_time
from freetrain.config import ConfigError, load_config
from freetrain.core.lendable import Lendable, Past, find_lendable
from freetrain.daemon.checks import read_settings
from freetrain.daemon.drains import read_drains, reasons
from freetrain.daemon.setup import manners_of
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.parsing import fold_nodes

Verdict = tuple[str, str, float | None]
"""What is done with a node, why, and until when it may be lent."""


@click.command("nodes")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def nodes_command(config_path: Path | None, as_json: bool) -> None:
    """Say of each node of the partition whether it may be lent, until when, to whom it is, or why not.

    What only time tells (how long a node has been idle, or for whom it has been kept free) the daemon alone knows.
    """
    config = load_config(config_path).config
    gateway = CommandLine(config.slurm.timeout)
    manners = manners_of(config, read_settings(gateway))
    snapshot = gateway.snapshot()
    if manners.rules.partition not in snapshot.partitions:
        raise ConfigError(f"Slurm has no partition {manners.rules.partition}.", "Set slurm.partition.")
    ledger = readable_ledger(config)
    fragments = ledger.open_fragments() if ledger else []
    drained = reasons(read_drains(Path(config.state.directory), snapshot.time_s))
    rules = replace(manners.rules, drained=drained)
    verdicts = _verdicts(find_lendable(snapshot, fragments, rules, Past({}, {}, {})))
    groups: dict[Verdict, list[str]] = {}
    for name, verdict in sorted(verdicts.items()):
        groups.setdefault(verdict, []).append(name)
    if as_json:
        rows = [
            {"nodes": names, "state": state, "why": why, "until": until_s}
            for (state, why, until_s), names in groups.items()
        ]
        print_json({"format": "freetrain-nodes/1", "nodes": rows})
        return
    print_table(
        ("NODES", "COUNT", "STATE", "UNTIL", "WHY"),
        [
            (fold_nodes(names), str(len(names)), state, show_time(until_s), why or NOTHING)
            for (state, why, until_s), names in groups.items()
        ],
        right=("COUNT",),
    )


def _verdicts(lendable: Lendable) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for node in lendable.offered:
        state = "free" if node.held_by is None else f"lent to {node.held_by}"
        found[node.name] = (state, "", node.free_until_s)
    found |= {name: ("due back", why, None) for name, why in lendable.due.items()}
    return found | {name: ("not lent", why, None) for name, why in lendable.withheld.items()}
