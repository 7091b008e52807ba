"""``freetrain history``: what was lent to which training; ``freetrain audit``: orders to Slurm, and why."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any

import click

from freetrain.cli.helping import RenamedOption, command
from freetrain.cli.listing import LISTING, Shape
from freetrain.cli.options import option, read_nodes, since_option
from freetrain.cli.site import Site
from freetrain.core.fragment import Fragment
from freetrain.durations import show_duration
from freetrain.showing.words import NOTHING, or_nothing, show_time

_COLUMNS = ("JOB", "TRAINER", "USER", "NODE", "STARTED", "LASTED", "END", "DECISION")


@command("history", context_settings=LISTING, first=("--since", "--user", "--trainer", "--nodelist", "--limit"))
def history_command(
    *,
    site: Site,
    since_s: float = since_option,
    trainer: str | None = option("--trainer", "Only this training's.", metavar="ID"),
    user: str | None = option("-u --user", "Only this user's."),
    nodes: str | None = option(
        "-w --nodelist --node",
        "Only what ran on these nodes, as n07, n[07-09] or @group.",
        cls=RenamedOption,
        metavar="NODES",
    ),
    most: int = option(
        "--limit --most",
        "Only the last so many of them.",
        cls=RenamedOption,
        type=click.IntRange(1),
        default=10_000,
    ),
    shape: Shape,
) -> None:
    """List the fragments: which node was lent to which training, for how long, and how that ended.

    Each is one time; a task that was requeued has several. They are remembered for state.keep; the sums of
    'freetrain ledger' go back further. This is for accounts that may read the daemon's database.
    """
    chosen = None if nodes is None else read_nodes(nodes)
    shape.begin(site.standing)
    now_s = time.time()
    # One more than is shown: so it is known whether there are more.
    found = site.ledger().history(since_s, trainer, user, chosen, most + 1)
    if len(found) > most:
        click.echo(f"Only the last {most} are shown; --limit shows more.", err=True)
    rows = [_row(fragment, owner, now_s) for fragment, owner in found[-most:]]
    document = site.document("freetrain-history/1", fragments=rows)
    otherwise = "Nothing was lent in that time."
    shape.print(document, _COLUMNS, map(_cells, rows), right=("LASTED",), otherwise=otherwise)


def _row(fragment: Fragment, user: str, now_s: float) -> dict[str, Any]:
    """A fragment as ``--json`` shows it, times in UTC epoch seconds; null: not so far, or unknown."""
    until_s = now_s if fragment.ended_s is None else fragment.ended_s
    return {
        "job": fragment.job,
        "trainer": fragment.trainer,
        "user": user,
        "node": fragment.node,
        "asked": fragment.asked_s,
        "started": fragment.started_s,
        "ended": fragment.ended_s,
        "lasted_s": None if fragment.started_s is None else max(0.0, until_s - fragment.started_s),
        "state": fragment.state,
        "end": fragment.end,
        "decision": fragment.decision,
    }


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    lasted = NOTHING if row["lasted_s"] is None else show_duration(row["lasted_s"])
    who = (row["job"], row["trainer"], row["user"] or NOTHING, row["node"])
    return (*who, show_time(row["started"]), lasted, row["end"] or row["state"], row["decision"] or NOTHING)


@command("audit", context_settings=LISTING, first=("--since", "--decision", "--json", "--format", "--config"))
def audit_command(
    *,
    site: Site,
    since_s: float = since_option,
    decision: str | None = option("--decision", "Only what this decision led to.", metavar="RUN:NUMBER"),
    shape: Shape,
) -> None:
    """List the commands that were given to Slurm: time, actor, reason, decision and result.

    Besides the daemon's own there are those that people gave by 'freetrain cancel', 'panic', 'pause', 'resume',
    'drain' and 'undrain', as far as they may write the daemon's database; what others did it sees in Slurm.

    A decision can be solved again with 'freetrain solve --decision RUN:NUMBER'.
    """
    shape.begin(site.standing)
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
        for row in site.ledger().commands(since_s)
        if decision in (None, row.decision)
    ]
    columns = ("TIME", "ACTOR", "DECISION", "WHY", "COMMAND", "RESULT", "CODE")
    document = site.document("freetrain-audit/1", commands=rows)
    shape.print(document, columns, map(_order_cells, rows), otherwise="Nothing was done in that time.")


def _order_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    cause = (row["actor"], row["decision"] or NOTHING, row["why"])
    outcome = (row["result"], or_nothing(row["return_code"], "{}"))
    return (show_time(row["time"]), *cause, shlex.join(row["command"]) or NOTHING, *outcome)
