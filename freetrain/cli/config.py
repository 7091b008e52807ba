"""``freetrain config``: the settings that count, their sources, and whether they fit this Slurm."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from freetrain.cli.helping import command, group
from freetrain.cli.listing import LISTING, Shape, print_json
from freetrain.cli.options import argument, config_file, config_option, json_option, option, shared_option
from freetrain.config import (
    CONFIG_VARIABLE,
    DEFAULT_PATH,
    Config,
    ConfigError,
    Loaded,
    find_mistakes,
    find_sources,
    load_config,
)
from freetrain.config.documents import example_file
from freetrain.config.settings import Setting, changed, settings, value_of
from freetrain.daemon.admission.inspection import (
    Inspection,
    daemons_account,
    inspect,
    inspect_files,
    of_mistake,
    propose,
)
from freetrain.errors import ExitCode, InputError
from freetrain.showing.words import NOTHING, printable
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.finding import Finding, LineKind
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.site.reader import ALL_QUESTIONS

FORMAT = "freetrain-config/1"
_CHECK_FORMAT = "freetrain-check/1"


@command("check")
def check_command(
    config_path: Path | None = shared_option(config_file),
    account: str | None = option(
        "--user", "The daemon's account  [default: that of its directory, or freetrain]."
    ),
    prove: bool = option(
        "--prove", "Prove the rights, as the daemon's account, with a held job that is changed and cancelled."
    ),
    offline: bool = option("--offline", "Look at the files alone; ask no Slurm."),
    as_json: bool = json_option,
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
    if prove and offline:
        raise InputError("--prove asks Slurm, and --offline does not.", "Leave one of them out.")
    if prove and pwd.getpwuid(os.geteuid()).pw_name != account:
        raise InputError(
            f"What {account} may do only {account} can prove.",
            f"sudo -u {account} freetrain config check --prove; or name another account with --user.",
        )
    if offline:
        _finish(inspect_files(config, sources, account), config_path, as_json)
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    try:
        found = inspect(config, sources, gateway, account, prove)
    except SlurmError:
        _print(inspect_files(config, sources, account), config_path, as_json)
        raise
    _finish(found, config_path, as_json)


def lines_of(finding: Finding, settings: Path) -> Iterator[str]:
    """Lines of a finding for people; ``settings`` is the file of settings if the finding names none."""
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
        print_json(_check_document(found, sources))
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


def _check_document(found: Inspection, sources: tuple[Path, ...]) -> dict[str, Any]:
    settings = found.site.settings if found.site else None
    return {
        "format": _CHECK_FORMAT,
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


@command("init")
def init_command(
    config_path: Path | None = shared_option(config_file),
    force: bool = option("--force", "Replace a file that is there."),
    dry_run: bool = option("--dry-run", "Print what would be written."),
) -> None:
    """Ask the live Slurm, and write a complete first configuration that only observes.

    It goes to PATH, or that of --config; else to $FREETRAIN_CONFIG or /etc/freetrain/freetrain.toml. What is to be
    done in Slurm is printed, as 'freetrain config check' does.
    """
    path = config_path or Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_PATH)
    defaults = Config()
    gateway = OpenedWhenAsked(defaults.slurm.backend, defaults.slurm.timeout)
    text = example_file(propose(gateway.site(0.0, ALL_QUESTIONS)))
    if dry_run:
        click.echo(text, nl=False)
        return
    _write(path, text, force)
    config = load_config(path).config
    click.echo(f"{path} is written: {config.slurm.queue}, mode {config.lend.mode}.")
    findings = inspect(config, (path,), gateway, daemons_account(config)).findings
    if findings:
        click.echo("Before it can lend anything, Slurm has to be as it must be ('freetrain config check'):")
    for finding in findings:
        for line in lines_of(finding, path):
            click.echo(printable(line))


def _write(path: Path, text: str, force: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already.", "Give --force to replace it, or another PATH.") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", "Name a PATH that you may write."
        ) from error


@group("config")
def config_group() -> None:
    """Check, show, compare or begin the daemon's configuration."""


config_group.add_command(check_command)
config_group.add_command(init_command)


@config_group.command("show")
def show_command(
    config_path: Path | None = shared_option(config_option),
    with_origin: bool = option("--origin", "Say behind each setting which file it comes from."),
    as_json: bool = json_option,
) -> None:
    """Print every setting as it counts, in the form of the file."""
    loaded = load_config(config_path)
    if as_json:
        print_json(_document(loaded, settings()))
        return
    section = ""
    for setting in settings():
        if setting.section != section:
            click.echo(f"{chr(10) if section else ''}[{setting.section}]")
            section = setting.section
        line = f"{setting.name} = {setting.show(value_of(loaded.config, setting))}"
        click.echo(f"{line:<40} # {_origin(loaded, setting) or 'default'}" if with_origin else line)


@config_group.command("diff", context_settings=LISTING)
def diff_command(
    *,
    config_path: Path | None = shared_option(config_option),
    shape: Shape,
    other: Path | None = argument(required=False),
) -> None:
    """List the settings that differ from the defaults, or from those of the configuration OTHER."""
    loaded = load_config(config_path)
    base = Config() if other is None else load_config(other).config
    found = changed(loaded.config, base)
    rows = [
        (
            setting.path,
            *(setting.show(value_of(config, setting)) for config in (base, loaded.config)),
            _origin(loaded, setting) or NOTHING,
        )
        for setting in found
    ]
    columns = ("SETTING", "OTHER" if other else "DEFAULT", "VALUE", "FROM")
    shape.print(_document(loaded, found), columns, rows, otherwise="No setting differs.")


def _origin(loaded: Loaded, setting: Setting) -> str:
    return str(loaded.origins.get(setting.path, ""))


def _document(loaded: Loaded, shown: Any) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "sources": [str(source) for source in loaded.sources],
        "settings": [
            {
                "setting": setting.path,
                "value": value_of(loaded.config, setting),
                "default": setting.default,
                "from": _origin(loaded, setting) or None,
            }
            for setting in shown
        ],
    }
