"""Which trainings a listing shows, by options as those of squeue."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import click

from freetrain.cli.node_lists import read_nodes
from freetrain.cli.options import options
from freetrain.client.trainings import RUNNING, STARTING, WAITING
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Nodes

_STATES = (RUNNING, STARTING, WAITING, *(str(state) for state in TrainerState if state is not TrainerState.ACTIVE))
_SQUEUES = {"r": RUNNING, "cf": STARTING, "configuring": STARTING, "pd": WAITING, "pending": WAITING}

Command = Callable[..., Any]
Words = frozenset[str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was asked for; empty: all.

    Attributes:
        users: owners.
        accounts: to which they are charged.
        states: of :func:`freetrain.client.trainings.state_word`.
        nodes: of which they have one at least.
    """

    users: Words = frozenset()
    accounts: Words = frozenset()
    states: Words = frozenset()
    nodes: Nodes = frozenset()

    def has(self, user: str, account: str, state: str, nodes: Collection[str]) -> bool:
        """Whether a training is among them."""
        return (
            (not self.users or user in self.users)
            and (not self.accounts or account in self.accounts)
            and (not self.states or state in self.states)
            and (not self.nodes or not self.nodes.isdisjoint(nodes))
        )


def choosing_options(command: Command) -> Command:
    """The options, which the command gets as one argument, ``chosen``."""

    @functools.wraps(command)
    def choosing(*, users: Words, accounts: Words, states: Words, nodelist: str | None, **given: Any) -> Any:
        nodes = read_nodes(nodelist) if nodelist is not None else frozenset()
        return command(chosen=Chosen(users, accounts, states, nodes), **given)

    return options(
        click.option("-u", "--user", "users", callback=_words, metavar="USER,…", help="Only these users'."),
        click.option(
            "-A", "--account", "accounts", callback=_words, metavar="ACCOUNT,…", help="Only these accounts'."
        ),
        click.option(
            "-t",
            "--states",
            "states",
            callback=_states,
            metavar="STATE,…",
            help=f"Only those that are {_among()}.",
        ),
        click.option(
            "-w", "--nodelist", metavar="NODES", help="Only those that have one of these nodes, as c[01-16]."
        ),
    )(choosing)


def _among() -> str:
    return f"{', '.join(_STATES[:-1])} or {_STATES[-1]}"


def _words(_context: click.Context, _option: click.Parameter, text: str | None) -> Words:
    return frozenset(word.strip() for word in (text or "").split(",") if word.strip())


def _states(context: click.Context, option: click.Parameter, text: str | None) -> Words:
    words = {_SQUEUES.get(word.lower(), word.lower()) for word in _words(context, option, text)}
    if unknown := sorted(words - {*_STATES}):
        raise click.BadParameter(f"{unknown[0]!r} is not a state of a training; there are {', '.join(_STATES)}")
    return frozenset(words)
