"""The man pages freetrain(1) and freetraind(8), made from the commands' own help.

``python -m freetrain.cli.man_pages`` writes them; run it in the project's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path

import click

from freetrain.cli.main import cli
from freetrain.config.documents import escaped

_EXIT_STATUS = """
0 success; 1 something failed; 2 wrong usage; 69 Slurm or the daemon could not be reached; 74 freetrain's own
state could not be read or written; 75 try again later; 77 not allowed; 78 the configuration is wrong, Slurm's
layout is unsafe, or the database is of another freetrain.
"""
_FILES = (
    ("/etc/freetrain/freetrain.toml", "settings; see freetrain.toml(5)"),
    ("/var/lib/freetrain", "the daemon's state: its database, and status.json, which every user may read"),
    ("~/.local/state/freetrain/freetrain.db", "a user's own replays"),
)
_STOPPING = """
Stopping the daemon leaves what is lent to the trainings: Slurm alone protects the site's jobs then, by
preemption. 'freetrain pause' lends nothing more, 'freetrain panic' gives everything back at once, and works
without a daemon, too.
"""


def commands_page() -> str:
    """freetrain(1)."""
    lines = [
        *_head("freetrain", 1, "idle nodes of a Slurm machine for deep-learning training", "User commands"),
        ".SH SYNOPSIS",
        ".B freetrain",
        escaped("[--debug] COMMAND [ARGUMENTS]"),
        ".SH DESCRIPTION",
        *_paragraphs(cli.help or ""),
        ".SH COMMANDS",
    ]
    for context in _contexts(_context(cli, "freetrain")):
        lines += [
            f".SS {escaped(_synopsis(context))}",
            *_paragraphs(context.command.help or ""),
            *_options(context),
        ]
    return "\n".join([*lines, *_tail("freetraind (8)", "freetrain.toml (5)")]) + "\n"


def daemon_page() -> str:
    """freetraind(8)."""
    root = _context(cli, "freetrain")
    command = cli.get_command(root, "daemon")
    assert command is not None
    context = _context(command, "daemon", root)
    lines = [
        *_head("freetraind", 8, "freetrain's daemon, started as 'freetrain daemon'", "System administration"),
        ".SH SYNOPSIS",
        escaped(_synopsis(context)),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".PP",
        escaped(_STOPPING.strip()),
        ".SH OPTIONS",
        *_options(context),
    ]
    return "\n".join([*lines, *_tail("freetrain (1)", "freetrain.toml (5)", "systemctl (1)")]) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "etc/man/freetrain.1": commands_page,
    "etc/man/freetraind.8": daemon_page,
}
"""Man pages: path in the project → function that makes the text."""


def _head(name: str, section: int, what: str, manual: str) -> list[str]:
    return [f'.TH {name.upper()} {section} "" freetrain "{manual}"', ".SH NAME", f"{name} \\- {escaped(what)}"]


def _tail(*see: str) -> Iterator[str]:
    yield from (".SH EXIT STATUS", escaped(_EXIT_STATUS.strip()), ".SH FILES")
    for path, means in _FILES:
        yield from (".TP", f".I {escaped(path)}", escaped(means))
    yield from (".SH SEE ALSO", *(f".BR {page}," for page in see[:-1]), f".BR {see[-1]}")


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    """Click context of a command, as where it runs; click keeps the names of its help option from then on."""
    return click.Context(command, parent, name, **command.context_settings)


def _contexts(group: click.Context) -> Iterator[click.Context]:
    assert isinstance(group.command, click.Group)
    for name in group.command.list_commands(group):
        command = group.command.get_command(group, name)
        assert command is not None
        context = _context(command, name, group)
        if isinstance(command, click.Group):
            yield from _contexts(context)
        elif not command.hidden:
            yield context


def _synopsis(context: click.Context) -> str:
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def _paragraphs(text: str) -> Iterator[str]:
    """Lines of a help text for man; paragraphs that click does not wrap stay as they are."""
    for number, paragraph in enumerate(cleandoc(text).split("\n\n")):
        if number:
            yield ".PP"
        first, _, rest = paragraph.partition("\n")
        if first.strip() == "\b":
            yield from (".nf", *map(escaped, rest.splitlines()), ".fi")
        else:
            yield escaped(" ".join(paragraph.split()))


def _options(context: click.Context) -> Iterator[str]:
    for option in context.command.get_params(context):
        names, means = option.get_help_record(context) or ("", "")
        if means and not {"--help", "--help-all"} & {*option.opts}:
            yield from (".TP", f".B {escaped(names)}", escaped(" ".join(means.split())))


if __name__ == "__main__":
    for page, made in PAGES.items():
        Path(page).write_text(made())
