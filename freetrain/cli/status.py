"""``freetrain status``, ``health`` and ``freetrain`` alone: the daemon's state, and the next steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import IntEnum

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, print_json
from freetrain.cli.options import json_option
from freetrain.cli.site import SiteContext
from freetrain.client.documents import status_document
from freetrain.config import ConfigError, Loaded, load_config
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.reports.status import STATUS_NAME
from freetrain.errors import ExitCode, FreetrainError
from freetrain.showing.words import printable
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.queries import PING


@command("status", context_settings=LISTING)
def status_command(site: SiteContext, shape: Shape) -> None:
    """Say whether a daemon is at work on this machine, what stops it, and how much it lends; anybody may ask.

    The exit status is 0 if a daemon is at work and Slurm answers it, and 69 if not. Slurm is not asked. With -P,
    --csv or --format there is a line for each state of nodes and of trainers, with its count.
    """
    standing = site.standing
    document = status_document(standing)
    counts = {"nodes": document.nodes, "trainers": document.trainers}
    shape.begin(standing)
    if shape.as_json or shape.is_for_scripts or shape.columns:
        rows = [(of, state, str(count)) for of, states in counts.items() for state, count in states.items()]
        shape.print(asdict(document), ("OF", "STATE", "COUNT"), rows, ("COUNT",))
    elif standing.look is not None:
        click.echo(f"Nodes: {_listed(document.nodes)}. Trainers: {_listed(document.trainers)}.")
        unwoken = "" if standing.look.woken_s else "; nothing has woken the daemon between polls"
        click.echo(f"Questions and commands to Slurm in the last hour: {standing.look.calls}{unwoken}.")
    raise SystemExit(ExitCode.OK if standing.answers else ExitCode.UNREACHABLE)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"


class Health(IntEnum):
    """Exit statuses of ``freetrain health``, as those of monitoring plug-ins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@command("health")
def health_command(site: SiteContext, as_json: bool = json_option) -> None:
    """Say in one line whether all is well; Slurm is not asked, and anybody may ask.

    The exit status is 0 if a daemon is at work and Slurm answers it, 1 if it lends nothing, has refused the
    settings of a reload, does not understand Slurm or cannot be woken although it should be, 2 if there is none or
    Slurm does not answer, and 3 if nobody can say.
    """
    standing: Standing | None = None
    try:
        standing = site.standing
        is_hidden = standing.status is None and (site.directory / STATUS_NAME).exists()
        health, why = (Health.UNKNOWN, standing.why_not) if is_hidden else judge_health(standing)
    except FreetrainError as error:
        health, why = Health.UNKNOWN, error.what
    if as_json:
        document = standing.document() if standing else None
        print_json({"format": "freetrain-health/1", "health": health.name, "why": why, "daemon": document})
    else:
        figures = ""
        if standing is not None and standing.look is not None:
            nodes, look = status_document(standing).nodes, standing.look
            states = ("free", "lent", "asked for", "due back")
            counts = {state.replace(" ", "_"): nodes.get(state, 0) for state in states}
            counts["trainers"] = len(look.trainers) + look.trainers_left_out
            figures = " ".join(f"{name}={count}" for name, count in counts.items())
        click.echo(f"FREETRAIN {health.name} - {printable(why)}" + (f" | {figures}" if figures else ""))
    raise SystemExit(int(health))


def judge_health(standing: Standing) -> tuple[Health, str]:
    """Health of the daemon, and the reason as the end of a sentence."""
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


_PATIENCE_S = 5.0
_ANSWERS = "Slurm answers."
_LOG = "freetrain replay LOG", "shows what the idle nodes in your scheduler's log would have trained"
_LAB = "freetrain lab up", "starts a Slurm on this machine, to try freetrain in"
_INIT = "freetrain config init", "asks Slurm, and writes a first configuration that only observes (admins)"
_CHECK = "freetrain config check", "says what is wrong with it, and what in Slurm"
_DAEMON = "freetrain daemon", "looks at the machine, and lends nothing before lend.mode is act (admins)"
_STATUS = "freetrain status", "says how many nodes could be lent (docs/admins/go-live.md)"
_SUBMIT = "freetrain submit --nodes 1-8 SCRIPT", "hands a training to freetrain (users)"
_JOBS = "freetrain jobs", "lists the trainings, and why they have the nodes that they have"

NextStep = tuple[str, str]
"""A command, and its purpose."""


def print_where_you_stand() -> None:
    """Print whether there are a Slurm, a configuration and a daemon, and what to do next."""
    slurm = _slurm()
    try:
        loaded = load_config()
        sources = f"The configuration is {', '.join(map(str, loaded.sources))}."
        configuration = sources if loaded.sources else "There is no configuration: the defaults count."
    except ConfigError as error:
        loaded = None
        configuration = f"The configuration cannot be used: {f'{error.what} {error.hint}'.strip()}"
    standing = find_standing(loaded.config) if loaded else None
    for line in (slurm, configuration, *(standing.lines() if standing else ())):
        click.echo(printable(line))
    click.echo("\nNext:")
    steps = next_steps(slurm == _ANSWERS, loaded, standing)
    width = max(len(name) for name, _ in steps)
    for name, meaning in steps:
        click.echo(f"  {name.ljust(width)}  {meaning}")
    click.echo("\nAll commands: freetrain --help")


def next_steps(has_slurm: bool, loaded: Loaded | None, standing: Standing | None) -> Sequence[NextStep]:
    """Steps that are worth doing next, in order; ``loaded`` is None where the configuration cannot be read."""
    if not has_slurm:
        return (_LOG, _LAB)
    if loaded is None:
        return (_CHECK, _SUBMIT)
    if not loaded.sources:
        return (_INIT, _LOG)
    if standing is None or standing.status is None or not standing.is_at_work:
        return (_CHECK, _DAEMON)
    return (_SUBMIT, _JOBS) if standing.status.daemon.mode == "act" else (_STATUS, _CHECK)


def _slurm() -> str:
    try:
        answer = OpenedWhenAsked("cli", _PATIENCE_S).perform(PING)
    except SlurmError as error:
        return f"No Slurm answers here: {error.what}"
    return _ANSWERS if "is UP" in answer else "Slurm is here, and its controller is down."
