"""A hook of MkDocs: commands, reasons and the past of a trainer, made from the code when the site is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from typing import Any

import click

from freetrain.cli.main import cli
from freetrain.core.trainer import TrainerPast
from freetrain.lending.node_verdicts import NODE_VERDICTS, NOT_COMPETING, what_changes


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add what is made from the code to the pages that have such a part."""
    made = MADE.get(page.file.src_uri)
    return "\n".join([markdown, *made()]) if made else markdown


def _all_commands() -> Iterator[str]:
    return _commands(click.Context(cli, info_name="freetrain"))


def _node_verdicts() -> Iterator[str]:
    yield from ("| reason | what would change it |", "|---|---|")
    names = (verdict.name for verdict in (*NODE_VERDICTS, NOT_COMPETING))
    yield from (f"| {name} | {_plain(what_changes(name, 'NODE'))} |" for name in names)


def _past_of_a_trainer() -> Iterator[str]:
    yield from ("", "| field | |", "|---|---|")
    _, _, described = cleandoc(TrainerPast.__doc__ or "").partition("Attributes:\n")
    for line in described.splitlines():
        name, _, means = line.strip().partition(": ")
        yield f"| `{name}` | {_plain(means)} |"


def _commands(group: click.Context) -> Iterator[str]:
    assert isinstance(group.command, click.Group)
    for name in sorted(group.command.list_commands(group)):
        command = group.command.get_command(group, name)
        assert command is not None
        context = click.Context(command, group, name, **command.context_settings)
        if not command.hidden:
            yield from (f"\n## {context.command_path}\n", *_help(command.help or ""), *_options(context))
        if isinstance(command, click.Group):
            yield from _commands(context)


def _help(text: str) -> Iterator[str]:
    """Paragraphs; what click leaves as it is becomes a block of code."""
    for paragraph in cleandoc(text).split("\n\n"):
        kept = paragraph.startswith("\b\n")
        yield "\n".join(f"    {line}" for line in paragraph.splitlines()[1:]) if kept else _plain(paragraph)
        yield ""


def _options(context: click.Context) -> Iterator[str]:
    yield f"    {' '.join([context.command_path, *context.command.collect_usage_pieces(context)])}\n"
    records = [each.get_help_record(context) for each in context.command.get_params(context)]
    rows = [record for record in records if record and record[0].startswith("-") and "--help" not in record[0]]
    if rows:
        yield from ("| option | |", "|---|---|")
        yield from (f"| `{names}` | {_plain(means)} |" for names, means in rows)


def _plain(text: str) -> str:
    """Text in one line, in which nothing is markup."""
    line = " ".join(text.split())
    return "".join(f"\\{character}" if character in "|*_<[`\\" else character for character in line)


MADE: Mapping[str, Callable[[], Iterator[str]]] = {
    "reference/commands.md": _all_commands,
    "reference/verdicts.md": _node_verdicts,
    "developers/policy.md": _past_of_a_trainer,
}
"""Page → the lines that are added to it."""
