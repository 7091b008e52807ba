from __future__ import annotations

import pytest
from click.testing import CliRunner

from freetrain.cli.jobs import Chosen
from freetrain.cli.main import cli
from freetrain.errors import ExitCode


def test_nothing_asked_for_is_all() -> None:
    assert Chosen().has("news", "", "waiting", ())


@pytest.mark.parametrize(
    ("chosen", "has"),
    [
        (Chosen(users=frozenset({"news", "games"})), True),
        (Chosen(users=frozenset({"games"})), False),
        (Chosen(accounts=frozenset({"press"})), True),
        (Chosen(accounts=frozenset({"fun"})), False),
        (Chosen(states=frozenset({"running"})), True),
        (Chosen(states=frozenset({"waiting"})), False),
        (Chosen(nodes=frozenset({"n2", "n9"})), True),
        (Chosen(nodes=frozenset({"n9"})), False),
        (Chosen(users=frozenset({"news"}), nodes=frozenset({"n9"})), False),
    ],
)
def test_all_that_is_asked_for_must_hold(chosen: Chosen, has: bool) -> None:
    assert chosen.has("news", "press", "running", {"n1", "n2"}) is has


@pytest.mark.parametrize("command", ["top", "jobs"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-t", "sleeping"), "'sleeping' is not a state of a training; there are running"),
        (("-w", "n["), "Write nodes as"),
    ],
)
def test_what_cannot_be_chosen_is_said(command: str, options: tuple[str, str], says: str) -> None:
    done = CliRunner().invoke(cli, [command, *options])
    assert (done.exit_code, says in done.stderr) == (ExitCode.USAGE, True), done.stderr
