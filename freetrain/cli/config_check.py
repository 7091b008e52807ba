"""``freetrain config check``: what is wrong with the configuration, and with Slurm's side of it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from freetrain.cli.helping import command
from freetrain.cli.options import config_file
from freetrain.cli.output import print_json
from freetrain.config import DEFAULT_PATH, find_mistakes, find_sources, load_config
from freetrain.daemon.admission.inspection import (
    Inspection,
    daemons_account,
    inspect,
    inspect_files,
    of_mistake,
)
from freetrain.errors import ExitCode, InputError
from freetrain.showing.words import printable
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.finding import Finding, LineKind
from freetrain.slurm.opening import OpenedWhenAsked

FORMAT = "freetrain-check/1"


@command("check")
@config_file
@click.option("--user", "account", help="The daemon's account  [default: that of its directory, or freetrain].")
@click.option(
    "--prove",
    is_flag=True,
    help="Prove the rights, as the daemon's account, with a held job that is changed and cancelled.",
)
@click.option("--offline", is_flag=True, help="Look at the files alone; ask no Slurm.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(
    config_path: Path | None, account: str | None, prove: bool, offline: bool, as_json: bool
) -> None:
    """Find what is wrong with the configuration, and what in Slurm would keep it from lending well.

    The configuration is PATH, or that of --config.

    Each finding comes with the lines that mend it, for slurm.conf, freetrain.toml or a shell; what scontrol
    changes belongs into slurm.conf, too. An error keeps the daemon from lending, a warning costs something.

    The exit status is 0 without errors, 78 with some, and 69 if Slurm does not answer.
    """
    mistakes = find_mistakes(config_path)
    if mistakes:
        _finish(Inspection([of_mistake(mistake) for mistake in mistakes]), config_path, as_json)
    loaded = load_config(config_path)
    config, sources = loaded.config, loaded.sources
    account = account or daemons_account(config)
    if prove:
        _check_may_prove(account, offline)
    if offline:
        _finish(inspect_files(config, sources, account), config_path, as_json)
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    try:
        found = inspect(config, sources, gateway, account, prove)
    except SlurmError:
        _print(inspect_files(config, sources, account), config_path, as_json)
        raise
    _finish(found, config_path, as_json)


def _check_may_prove(account: str, offline: bool) -> None:
    if offline:
        raise InputError("--prove asks Slurm, and --offline does not.", "Leave one of them out.")
    if pwd.getpwuid(os.geteuid()).pw_name != account:
        raise InputError(
            f"What {account} may do only {account} can prove.",
            f"sudo -u {account} freetrain config check --prove; or name another account with --user.",
        )


def lines_of(finding: Finding, settings: Path) -> Iterator[str]:
    """A finding for people; ``settings`` is the file whose lines mend what lies in no file of its own."""
    yield f"{'error' if finding.is_unsafe else 'warning'}: {finding.what}"
    for place, line in finding.mends:
        where = finding.file or settings if place is LineKind.FREETRAIN_TOML else place
        yield f"    {where}: {line}"


def _finish(found: Inspection, config_path: Path | None, as_json: bool) -> None:
    _print(found, config_path, as_json)
    is_bad = any(finding.is_unsafe for finding in found.findings)
    raise SystemExit(ExitCode.CONFIGURATION if is_bad else ExitCode.OK)


def _print(found: Inspection, config_path: Path | None, as_json: bool) -> None:
    sources = find_sources(config_path)
    if as_json:
        print_json(_document(found, sources))
        return
    click.echo(f"Configuration: {', '.join(map(str, sources)) or 'no file, so the defaults count'}.")
    if found.site is None:
        click.echo("Slurm was not asked.")
    else:
        settings = found.site.settings
        click.echo(f"Slurm {settings.version}, cluster {settings.cluster}, {settings.preempt_type}.")
    for note in found.notes:
        click.echo(printable(note))
    for finding in found.findings:
        for line in lines_of(finding, sources[0] if sources else DEFAULT_PATH):
            click.echo(printable(line))
    for what in found.not_checked:
        click.echo(f"not checked: {printable(what)}")
    errors = sum(finding.is_unsafe for finding in found.findings)
    click.echo(f"{_counted(errors, 'error')}, {_counted(len(found.findings) - errors, 'warning')}.")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _document(found: Inspection, sources: tuple[Path, ...]) -> dict[str, Any]:
    settings = found.site.settings if found.site else None
    return {
        "format": FORMAT,
        "sources": [str(source) for source in sources],
        "slurm": {"cluster": settings.cluster, "version": settings.version} if settings else None,
        "findings": [
            {
                "what": finding.what,
                "is_error": finding.is_unsafe,
                "mends": [{"place": place, "line": line} for place, line in finding.mends],
            }
            for finding in found.findings
        ],
        "not_checked": list(found.not_checked),
        "notes": list(found.notes),
    }
