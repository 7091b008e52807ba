"""Every freetrain command that the documentation shows is there, with the options that it shows."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import click
import pytest

from freetrain.cli.main import cli
from tests.docs_shell import PAGES, freetrain_commands, place


def complaint(command: str) -> str:
    """What is wrong with a command; empty: nothing."""
    words = shlex.split(command)
    found: click.Command = cli
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        context = click.Context(found)
        if words[0] not in found.list_commands(context):
            return "" if found is not cli and found.invoke_without_command else f"there is no {words[0]}"
        inner = found.get_command(context, words.pop(0))
        assert inner is not None
        found = inner
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h"}
    before_dashes = words[: words.index("--")] if "--" in words else words
    # What stands behind a script is the script's.
    own = before_dashes[: next((n for n, word in enumerate(before_dashes) if word.endswith((".py", ".sh"))), None)]
    takes_value = {option for parameter in found.params if _takes_value(parameter) for option in parameter.opts}
    options = [word for before, word in pairwise(["", *own]) if before not in takes_value]
    unknown = [word.partition("=")[0] for word in options if re.match(r"--?[a-zA-Z]", word)]
    return ", ".join(f"{option} is not an option" for option in unknown if option not in known)


def _takes_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_command_that_is_shown_is_there(page: Path) -> None:
    assert {command: why for command in freetrain_commands(page) if (why := complaint(command))} == {}


def test_the_commands_are_found_and_judged() -> None:
    assert len([command for page in PAGES for command in freetrain_commands(page)]) > 100
    assert complaint("drian n1") == "there is no drian"
    assert complaint("config chekc") == "there is no chekc"
    assert complaint("drain n1 --untill 5") == "--untill is not an option"
    assert complaint("config check --offline") == ""
    assert complaint("sweep spec.toml --sbatch --partition=batch") == ""


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_command_says_what_it_does(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str()
