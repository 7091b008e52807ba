"""``freetrain audit``: who ordered what from Slurm, or would have, and why."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option, since_option
from freetrain.client.daemons_ledger import daemons_ledger
from freetrain.config import load_config
from freetrain.daemon.reports.standing import find_standing
from freetrain.showing.words import NOTHING, show_time


@command("audit", context_settings=LISTING, first=("--since", "--decision", "--json", "--format", "--config"))
@config_option
@since_option
@click.option("--decision", metavar="RUN:NUMBER", help="Only what this decision led to.")
@listing_options
def audit_command(config_path: Path | None, since_s: float, decision: str | None, shape: Shape) -> None:
    """List the commands that were given to Slurm: time, actor, reason, decision and result.

    Besides the daemon's own there are those that people gave by 'freetrain cancel', 'panic', 'pause', 'resume',
    'drain' and 'undrain', as far as they may write the daemon's database; what others did it sees in Slurm.

    A decision can be solved again with 'freetrain solve --decision RUN:NUMBER'.
    """
    config = load_config(config_path).config
    standing = find_standing(config)
    shape.begin(standing)
    ledger = daemons_ledger(config)
    rows: list[dict[str, Any]] = [
        {
            "time": row.time_s,
            "actor": row.actor,
            "why": row.why,
            "decision": row.decision,
            "command": row.argv,
            "result": row.result,
            "return_code": row.return_code,
        }
        for row in ledger.commands(since_s)
        if decision in (None, row.decision)
    ]
    shape.print(
        {"format": "freetrain-audit/1", "daemon": standing.document(), "commands": rows},
        ("TIME", "ACTOR", "DECISION", "WHY", "COMMAND", "RESULT", "CODE"),
        [
            (
                show_time(row["time"]),
                row["actor"],
                row["decision"] or NOTHING,
                row["why"],
                shlex.join(row["command"]) or NOTHING,
                row["result"],
                NOTHING if row["return_code"] is None else str(row["return_code"]),
            )
            for row in rows
        ],
        otherwise="Nothing was done in that time.",
    )
