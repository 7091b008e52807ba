"""``freetrain health``: one line and an exit status for a monitoring system."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_option
from freetrain.cli.output import print_json
from freetrain.config import load_config
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.reports.status import STATUS_NAME
from freetrain.errors import FreetrainError
from freetrain.showing.words import printable
from freetrain.slurm.parsing import expand_nodes


class Health(IntEnum):
    """As monitoring plug-ins say it by their exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@command("health")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def health_command(config_path: Path | None, as_json: bool) -> None:
    """Say in one line whether all is well; Slurm is not asked, and anybody may ask.

    The exit status is 0 if a daemon is at work and Slurm answers it, 1 if it lends nothing, has refused the
    settings of a reload, does not understand Slurm or cannot be woken although it should be, 2 if there is none or
    Slurm does not answer, and 3 if nobody can say.
    """
    standing: Standing | None = None
    try:
        config = load_config(config_path).config
        standing = find_standing(config)
        is_hidden = standing.status is None and (Path(config.state.directory) / STATUS_NAME).exists()
        health, why = (Health.UNKNOWN, standing.why_not) if is_hidden else judge_health(standing)
    except FreetrainError as error:
        health, why = Health.UNKNOWN, error.what
    counts = _counts(standing)
    if as_json:
        document = standing.document() if standing else None
        print_json({"format": "freetrain-health/1", "health": health.name, "why": why, "daemon": document})
    else:
        figures = " ".join(f"{name}={count}" for name, count in counts.items())
        click.echo(f"FREETRAIN {health.name} - {printable(why)}" + (f" | {figures}" if figures else ""))
    raise SystemExit(int(health))


def judge_health(standing: Standing) -> tuple[Health, str]:
    """How well the daemon is, and why, as the end of a sentence."""
    status, look = standing.status, standing.look
    if status is None or not standing.is_at_work:
        return Health.CRITICAL, f"no daemon is at work: {standing.why_not}"
    if status.silent_since_s is not None:
        silent, why = "Slurm does not answer", status.silent_why
        return Health.CRITICAL, why if why.startswith(silent) else f"{silent}: {why}"
    if look is None:
        return Health.WARNING, "the daemon has not looked yet"
    if why := standing.stopped_by:
        return Health.WARNING, f"nothing is lent: {why}"
    if look.paused_by:
        return Health.WARNING, f"nothing more is lent: {look.paused_by}"
    if status.refused_settings:
        return Health.WARNING, f"the last reload was refused: {status.refused_settings}"
    if look.rejected:
        first = look.rejected_examples[0]
        return Health.WARNING, f"{look.rejected} lines of Slurm's were not understood, as {first}"
    if look.cannot_wake:
        return Health.WARNING, look.cannot_wake
    return Health.OK, f"mode {status.daemon.mode}, last look {standing.now_s - look.time_s:.0f} s ago"


def _counts(standing: Standing | None) -> dict[str, int]:
    """Nodes by what is done with them, and trainers; none without a daemon."""
    if standing is None or standing.look is None:
        return {}
    nodes: Counter[str] = Counter()
    for group in standing.look.nodes:
        nodes[group.state] += len(expand_nodes(group.nodes))
    counts = {state.replace(" ", "_"): nodes[state] for state in ("free", "lent", "asked for", "due back")}
    return {**counts, "trainers": len(standing.look.trainers) + standing.look.trainers_left_out}
