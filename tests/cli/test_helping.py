from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from freetrain.cli.helping import FreetrainCommand
from freetrain.cli.main import cli
from tests.cli.test_listings import Site, site

__all__ = ["site"]
MANY = 8
"""So many options are too many to be shown at once."""


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield f"{path}{name}", found
        if isinstance(found, click.Group):
            yield from commands(found, f"{path}{name} ")


COMMANDS = dict(commands(cli))


def printed(*words: str) -> str:
    done = CliRunner().invoke(cli, words, prog_name="freetrain", terminal_width=100)
    assert done.exit_code == 0, done.output
    return done.stdout


def next_steps() -> list[str]:
    return re.findall(r"^  (freetrain .*?)  ", printed().partition("Next:")[2], re.MULTILINE)


def test_help_lists_the_commands_in_groups_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is imported")

    monkeypatch.setattr("freetrain.cli.main.importlib.import_module", refuse)
    text = printed("--help")
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles == ["Options", "For users", "For admins", "Replay", "Elastic training", "Lab and service"]
    assert set(re.findall(r"^  (\w+)  ", text, re.MULTILINE)) == {
        name for name in cli.list_commands(click.Context(cli)) if name != "holes"
    }


@pytest.mark.parametrize("name", [name for name, found in COMMANDS.items() if len(found.params) > MANY])
def test_what_has_many_options_shows_five_of_them_first(name: str) -> None:
    found = COMMANDS[name]
    assert isinstance(found, FreetrainCommand)
    assert 3 <= len(found.first) <= 5
    common, all_of_them = printed(*name.split(), "--help"), printed(*name.split(), "--help-all")
    options = [option for option in found.params if isinstance(option, click.Option) and not option.hidden]
    assert re.findall(r"^  (?:-\w, )?(--[\w-]+)", common, re.MULTILINE) == list(found.first)
    assert common.endswith(f"{len(options) - 1 - len(found.first)} more options: freetrain {name} --help-all\n")
    assert all(option.opts[0] in all_of_them for option in options)


def test_former_names_are_taken_and_not_shown() -> None:
    text = printed("history", "--help-all")
    assert "--limit" in text
    assert "--nodelist" in text
    assert "--most" not in text
    assert "--node " not in text
    limit = CliRunner().invoke(cli, ["history", "--most", "0"])
    assert "0 is not in the range" in limit.stderr


def test_every_command_about_a_daemon_takes_its_configuration_by_one_name() -> None:
    kinds = ("config_path", "site")
    options = {
        name: [option for option in found.params if option.name in kinds] for name, found in COMMANDS.items()
    }
    names = {name for name, found in options.items() if found}
    assert {"submit", "register", "unregister", "jobs", "config init", "config check", "daemon", "web"} <= names
    assert all([option.opts for option in options[name]] == [["--config"]] for name in names)


def test_alone_it_says_where_you_stand(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.slurm.answers("scontrol", "Slurmctld(primary) at n0 is UP\n", when="ping ")
    assert "The configuration is " in printed()
    assert "No daemon is at work here" in printed()
    assert next_steps() == ["freetrain config check", "freetrain daemon"]
    site.published(mode="observe")
    assert next_steps() == ["freetrain status", "freetrain config check"]
    site.published()
    assert "Slurm answers." in printed()
    assert next_steps() == ["freetrain submit --nodes 1-8 SCRIPT", "freetrain jobs"]
    monkeypatch.delenv("FREETRAIN_CONFIG")
    assert next_steps() == ["freetrain config init", "freetrain replay LOG"]
    monkeypatch.setenv("FREETRAIN_CONFIG", "/nowhere/freetrain.toml")
    assert "The configuration cannot be used: cannot read" in printed()
    monkeypatch.setenv("PATH", "/nowhere")
    assert "No Slurm answers here: there is no scontrol" in printed()
    assert next_steps() == ["freetrain replay LOG", "freetrain lab up"]
