"""Whatever changes something beyond files that it is told to write says beforehand what it would do."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from freetrain.cli.main import cli

READS = {
    *("audit", "completion", "curve", "explain", "health", "history", "holes", "jobs", "ledger", "nodes"),
    *("policies", "replay", "solve", "status", "top"),
    *(
        "config_check",
        "config_diff",
        "config_show",
        "db_check",
        "lab_env",
        "lab_status",
        "runs_compare",
        "runs_show",
    ),
}
"""They change nothing of the site's: what they write are reports, and a user's own record of replays."""

WITHOUT = {
    "daemon": "lend.mode = observe and advise are its dry runs",
    "run": "it is a training's own program, in its owner's job",
    "nudge": "it lets the daemon look, which it does anyway",
    "sweep": "it makes replays; --executor slurm hands them in as a job of one's own",
    "freeze": "it is a task's own program, in its owner's job",
    "web_token": "it prints a token, and makes the key for that once",
    "lab_up": "a lab is there to be tried",
    "lab_down": "likewise",
    "lab_crash": "likewise",
    "lab_node": "likewise",
    "lab_ctld": "likewise",
}


def leaves(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name}_")
        else:
            yield f"{before}{name}", command


COMMANDS = dict(leaves(cli))


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - READS - WITHOUT.keys()))
def test_a_command_that_changes_something_can_be_tried(name: str) -> None:
    assert "dry_run" in [parameter.name for parameter in COMMANDS[name].params]


def test_only_commands_that_there_are_are_left_out() -> None:
    assert (READS | WITHOUT.keys()) - COMMANDS.keys() == set()
    assert READS & WITHOUT.keys() == set()
