"""``freetrain jobs``: how the trainings are getting on; ``freetrain explain``: why they have their nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import option, read_nodes, takes_options
from freetrain.cli.output import print_json
from freetrain.cli.site import Site, site_option
from freetrain.client.documents import jobs_document
from freetrain.client.trainings import RUNNING, STARTING, WAITING, ListedTraining, find_trainings
from freetrain.core.fragment import End
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Nodes
from freetrain.showing.words import NOTHING, printable
from freetrain.slurm.parsing import fold_nodes

_STATES = (RUNNING, STARTING, WAITING, *(str(state) for state in TrainerState if state is not TrainerState.ACTIVE))
_SQUEUES = {"r": RUNNING, "cf": STARTING, "configuring": STARTING, "pd": WAITING, "pending": WAITING}

Words = frozenset[str]


def _words(_context: click.Context, _option: click.Parameter, text: str | None) -> Words:
    return frozenset(word.strip() for word in (text or "").split(",") if word.strip())


def _states(context: click.Context, parameter: click.Parameter, text: str | None) -> Words:
    words = {_SQUEUES.get(word.lower(), word.lower()) for word in _words(context, parameter, text)}
    if unknown := sorted(words - {*_STATES}):
        raise click.BadParameter(f"{unknown[0]!r} is not a state of a training; there are {', '.join(_STATES)}")
    return frozenset(words)


def _nodes(_context: click.Context, _option: click.Parameter, text: str | None) -> Nodes:
    return frozenset() if text is None else read_nodes(text)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which trainings a listing shows, by options as those of squeue; empty: all."""

    users: Words = option("-u --user", "Only these users'.", unset=frozenset(), callback=_words, metavar="USER,…")
    accounts: Words = option(
        "-A --account", "Only these accounts'.", unset=frozenset(), callback=_words, metavar="ACCOUNT,…"
    )
    states: Words = option(
        "-t --states",
        f"Only those that are {', '.join(_STATES[:-1])} or {_STATES[-1]}.",
        unset=frozenset(),
        callback=_states,
        metavar="STATE,…",
    )
    nodes: Nodes = option(
        "-w --nodelist",
        "Only those that have one of these nodes, as c[01-16].",
        unset=frozenset(),
        callback=_nodes,
        metavar="NODES",
    )

    def has(self, user: str, account: str, state: str, nodes: Collection[str]) -> bool:
        """Whether a training is among them."""
        return (
            (not self.users or user in self.users)
            and (not self.accounts or account in self.accounts)
            and (not self.states or state in self.states)
            and (not self.nodes or not self.nodes.isdisjoint(nodes))
        )


choosing_options = takes_options(Chosen, "chosen")
"""The options by which trainings are chosen, which the command gets as one argument, ``chosen``."""

_COLUMNS = (
    "ID", "NAME", "USER", "NODES", "ASKED", "WANTS", "SAMPLES", "EVICTIONS", "COSTS", "STATE", "NODELIST",
)  # fmt: skip
_NUMBERS = ("NODES", "ASKED", "SAMPLES", "EVICTIONS", "COSTS")
_COSTS = ("scale_up_s", "scale_down_s", "start_s", "boot_s")
"""In this order in one cell: seconds for growing, shrinking, starting, and the boot of a new node."""


@command("jobs", context_settings=LISTING, first=("--user", "--states", "--nodelist", "--json", "--format"))
@choosing_options
@listing_options
@site_option
def jobs_command(site: Site, chosen: Chosen, shape: Shape) -> None:
    """List the trainings that freetrain lends nodes to, or that wait for some, with what is wrong with their tags.

    Slurm is asked which run where; what the daemon found at its last look says the rest. Anybody may ask. COSTS
    are seconds for growing, shrinking, starting and the boot of a new node, as the tag says and as was seen.
    """
    shape.begin(site.standing)
    rows = [
        training
        for training in find_trainings(site.config, site.standing)
        if chosen.has(training.user, training.account, training.word, (*training.nodes, *training.asked_nodes))
    ]
    document = asdict(jobs_document(site.standing, rows))
    otherwise = f"No {'' if chosen == Chosen() else 'such '}training waits or runs in {site.config.slurm.queue}."
    shape.print(document, _COLUMNS, map(_cells, rows), right=_NUMBERS, otherwise=otherwise)


def _wants(training: ListedTraining) -> str:
    if training.task_nodes:
        return "{}-{} each".format(*training.task_nodes)
    return NOTHING if training.min_nodes is None else f"{training.min_nodes}-{training.max_nodes}"


def _cells(training: ListedTraining) -> tuple[str, ...]:
    nodes, asked, costs = training.nodes, training.asked_nodes, training.costs
    shown_costs = "/".join(f"{costs.get(name, 0.0):.3g}" for name in _COSTS) if costs else NOTHING
    samples = NOTHING if training.samples is None else f"{training.samples:,.0f}"
    evictions = NOTHING if training.ends is None else str(training.ends.get(str(End.PREEMPTED), 0))
    state = "; ".join(filter(None, (training.state, training.lacks)))
    return (
        training.id, training.name or NOTHING, training.user, str(len(nodes)), str(len(asked)), _wants(training),
        samples, evictions, shown_costs, state, fold_nodes(nodes) if nodes else NOTHING,
    )  # fmt: skip


@command("explain")
@site_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("what", metavar="JOB|NODE")
def explain_command(site: Site, as_json: bool, what: str) -> None:
    """Say in sentences why a training has as many nodes as it has, or why a node is lent or not.

    JOB is a training's id, as 'freetrain jobs' shows it, or any job of the site's. What was decided, and what
    another decision would have been worth, is for accounts that may read the daemon's database; the rest is for
    all.
    """
    # Here, since numpy, the policies and SQLAlchemy come with it.
    from freetrain.client.explaining import explain

    sentences = list(explain(what, site.config, site.standing))
    if as_json:
        print_json(site.document("freetrain-explain/1", about=what, sentences=sentences))
        return
    for line in (*site.standing.lines(), "", *sentences):
        click.echo(printable(line))
