"""``freetrain audit``: what the daemon told Slurm, or would have, and why."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import click

from freetrain.cli.daemons_ledger import daemons_ledger
from freetrain.cli.options import config_option
from freetrain.cli.output import NOTHING, print_json, print_table, show_time
from freetrain.config import load_config
from freetrain.durations import parse_duration
from freetrain.errors import InputError


def _seconds(_context: click.Context, _option: click.Parameter, given: str) -> float:
    try:
        return parse_duration(given)
    except ValueError as error:
        raise InputError(f"--since: {error}.") from error


@click.command("audit")
@config_option
@click.option(
    "--since", "since_s", default="1d", show_default=True, callback=_seconds, help="How far back, as 90s, 2h, 7d."
)
@click.option("--decision", metavar="RUN:NUMBER", help="Only what this decision led to.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def audit_command(config_path: Path | None, since_s: float, decision: str | None, as_json: bool) -> None:
    """List the commands that the daemon gave to Slurm: when, why, by which decision, and with what result.

    A decision can be solved again with 'freetrain solve --decision RUN:NUMBER'.
    """
    ledger = daemons_ledger(load_config(config_path).config)
    rows: list[dict[str, Any]] = [
        {
            "time": row.time_s,
            "why": row.why,
            "decision": row.decision,
            "command": row.argv,
            "result": row.result,
        }
        for row in ledger.commands(time.time() - since_s)
        if decision in (None, row.decision)
    ]
    if as_json:
        print_json({"format": "freetrain-audit/1", "commands": rows})
        return
    print_table(
        ("TIME", "DECISION", "WHY", "COMMAND", "RESULT"),
        [
            (
                show_time(row["time"]),
                row["decision"] or NOTHING,
                row["why"],
                shlex.join(row["command"]),
                row["result"],
            )
            for row in rows
        ],
    )
