"""``freetrain`` alone: where you stand, and what the next step is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from freetrain.config import ConfigError, Loaded, load_config
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.showing.words import printable
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.queries import ping

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

Step = tuple[str, str]
"""A command, and what it does."""


def print_where_you_stand() -> None:
    """Say what there is of a Slurm, a configuration and a daemon, and what to do next."""
    slurm = _slurm()
    try:
        loaded, wrong = load_config(), ""
    except ConfigError as error:
        loaded, wrong = None, f"{error.what} {error.hint}".strip()
    standing = find_standing(loaded.config) if loaded else None
    for line in (slurm, *_configuration(loaded, wrong), *(standing.lines() if standing else ())):
        click.echo(printable(line))
    click.echo("\nNext:")
    steps = next_steps(slurm == _ANSWERS, loaded, standing)
    width = max(len(name) for name, _ in steps)
    for name, meaning in steps:
        click.echo(f"  {name.ljust(width)}  {meaning}")
    click.echo("\nAll commands: freetrain --help")


def next_steps(has_slurm: bool, loaded: Loaded | None, standing: Standing | None) -> Sequence[Step]:
    """What is worth doing, the first thing first.

    Args:
        has_slurm: whether a Slurm answers on this machine.
        loaded: the configuration; None: it cannot be read.
        standing: how the daemon stands; None: nobody knows.
    """
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
        answer = OpenedWhenAsked("cli", _PATIENCE_S).perform(ping())
    except SlurmError as error:
        return f"No Slurm answers here: {error.what}"
    return _ANSWERS if "is UP" in answer else "Slurm is here, and its controller is down."


def _configuration(loaded: Loaded | None, wrong: str) -> Iterator[str]:
    if loaded is None:
        yield f"The configuration cannot be used: {wrong}"
    elif not loaded.sources:
        yield "There is no configuration: the defaults count."
    else:
        yield f"The configuration is {', '.join(map(str, loaded.sources))}."
