"""``freetrain jobs``: how the trainings are getting on, ``top``: the same live, ``explain``: why."""

from __future__ import annotations

import contextlib
import select
import sys
import termios
import tty
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, print_json
from freetrain.cli.options import DurationType, argument, json_option, option, read_nodes
from freetrain.cli.site import SiteContext
from freetrain.client.documents import jobs_document, status_document
from freetrain.client.trainings import RUNNING, STARTING, WAITING, ListedTraining, find_trainings, state_word
from freetrain.core.fragment import End
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Nodes
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.showing.words import NOTHING, or_nothing, printable
from freetrain.slurm.parsing import expand_nodes, fold_nodes

_STATES = (RUNNING, STARTING, WAITING, *(str(state) for state in TrainerState if state is not TrainerState.ACTIVE))
_SQUEUES = {"r": RUNNING, "cf": STARTING, "configuring": STARTING, "pd": WAITING, "pending": WAITING}

NameSet = frozenset[str]


def _words(_context: click.Context, _option: click.Parameter, text: str | None) -> NameSet:
    return frozenset(word.strip() for word in (text or "").split(",") if word.strip())


def _states(context: click.Context, parameter: click.Parameter, text: str | None) -> NameSet:
    words = {_SQUEUES.get(word.lower(), word.lower()) for word in _words(context, parameter, text)}
    if unknown := sorted(words - {*_STATES}):
        raise click.BadParameter(f"{unknown[0]!r} is not a state of a training; there are {', '.join(_STATES)}")
    return frozenset(words)


def _nodes(_context: click.Context, _option: click.Parameter, text: str | None) -> Nodes:
    return frozenset() if text is None else read_nodes(text)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Filter of the trainings in a listing, by options as those of squeue; empty: all."""

    users: NameSet = option(
        "-u --user", "Only these users'.", unset=frozenset(), callback=_words, metavar="USER,…"
    )
    accounts: NameSet = option(
        "-A --account", "Only these accounts'.", unset=frozenset(), callback=_words, metavar="ACCOUNT,…"
    )
    states: NameSet = option(
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


_COLUMNS = (
    "ID", "NAME", "USER", "NODES", "ASKED", "WANTS", "SAMPLES", "EVICTIONS", "COSTS", "STATE", "NODELIST",
)  # fmt: skip
_NUMBERS = ("NODES", "ASKED", "SAMPLES", "EVICTIONS", "COSTS")
_COSTS = ("scale_up_s", "scale_down_s", "start_s", "boot_s")
"""Costs in one cell, in this order: seconds for growing, shrinking, starting, and the boot of a new node."""


@command("jobs", context_settings=LISTING, first=("--user", "--states", "--nodelist", "--json", "--format"))
def jobs_command(chosen: Chosen, shape: Shape, site: SiteContext) -> None:
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


def _cells(training: ListedTraining) -> tuple[str, ...]:
    nodes, asked, costs = training.nodes, training.asked_nodes, training.costs
    wants = NOTHING if training.min_nodes is None else f"{training.min_nodes}-{training.max_nodes}"
    if training.task_nodes:
        wants = "{}-{} each".format(*training.task_nodes)
    shown_costs = "/".join(f"{costs.get(name, 0.0):.3g}" for name in _COSTS) if costs else NOTHING
    samples = or_nothing(training.samples, "{:,.0f}")
    evictions = NOTHING if training.ends is None else str(training.ends.get(str(End.PREEMPTED), 0))
    state = "; ".join(filter(None, (training.state, training.lacks)))
    return (
        training.id, training.name or NOTHING, training.user, str(len(nodes)), str(len(asked)), wants,
        samples, evictions, shown_costs, state, fold_nodes(nodes) if nodes else NOTHING,
    )  # fmt: skip


@command("explain")
def explain_command(
    site: SiteContext, as_json: bool = json_option, what: str = argument(metavar="JOB|NODE")
) -> None:
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


_STYLES = {
    "lent": "green",
    "free": "cyan",
    "asked for": "yellow",
    "due back": "magenta",
    "not lent": "bright_black",
}
_ROWS_BESIDE = 8
"""Lines of the screen that are not of the table."""


@command("top")
def top_command(
    site: SiteContext,
    chosen: Chosen,
    interval_s: float = option(
        "--interval", "Time between two looks.", type=DurationType(least_s=0.2), default="2s"
    ),
    once: bool = option("--once", "Print it once, and end."),
) -> None:
    """Show the daemon, the nodes and the trainings, again and again; q ends it.

    Slurm is not asked: this is what the daemon published at its last look. Anybody may ask.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    if once or not (sys.stdin.isatty() and console.is_terminal):
        console.print(draw(find_standing(site.config), chosen, None, console.width))
        return
    with _each_key(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            max_rows = max(1, console.height - _ROWS_BESIDE)
            live.update(draw(find_standing(site.config), chosen, max_rows, console.width), refresh=True)
            has_key, _, _ = select.select([sys.stdin], [], [], interval_s)
            if has_key and sys.stdin.read(1) in ("q", "Q"):
                return


def draw(standing: Standing, chosen: Chosen, max_rows: int | None, width: int) -> Group:
    """The whole picture, ``width`` characters wide, with ``max_rows`` trainings at most."""
    lines = [Text(line, style="" if standing.answers else "red") for line in map(printable, standing.lines())]
    look = standing.look
    if look is None:
        return Group(*lines)
    counts = Counter(status_document(standing).nodes)
    total = sum(counts.values())
    bar, legend = Text(), Text()
    for state, style in _STYLES.items():
        cells = round(counts[state] * min(width, total) / total) if total else 0
        bar.append(("#" if state == "lent" else "-" if state == "not lent" else "=") * cells, style)
        legend.append(f"{counts[state]} {state}  ", style)
    return Group(*lines, Text(), bar, legend, Text(), _trainers(standing, chosen, max_rows))


def _trainers(standing: Standing, chosen: Chosen, max_rows: int | None) -> Table | Text:
    shown = []
    for trainer in standing.trainers.values():
        lent, starting = expand_nodes(trainer.lent), expand_nodes(trainer.asked)
        word = state_word(trainer.state, lent, starting)
        if chosen.has(trainer.owner, trainer.account, word, lent | starting):
            shown.append((trainer, len(lent), len(starting)))
    shown.sort(key=lambda row: (-row[1], row[0].id))
    if not shown:
        return Text("No such training waits or runs." if chosen != Chosen() else "No training waits or runs.")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("TRAINING", "USER", "NODES", "ASKED", "SAMPLES", "EVICTIONS", "STATE"):
        right = column in ("NODES", "ASKED", "SAMPLES", "EVICTIONS")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for trainer, nodes, asked in shown[:max_rows]:
        now = "running" if nodes else standing.waiting_text(trainer)
        state = printable(standing.trouble_of(trainer) or now)
        samples = f"{trainer.samples_done:,.0f}"
        evictions = str(trainer.ends.get("preempted", 0))
        cells = (trainer.id, trainer.owner, str(nodes), str(asked), samples, evictions, state)
        table.add_row(*cells, style="" if nodes else "bright_black")
    if max_rows is not None and len(shown) > max_rows:
        table.caption = f"{len(shown) - max_rows} more"
    return table


@contextlib.contextmanager
def _each_key() -> Iterator[None]:
    """Let the terminal give each key as it is pressed; afterwards it is as before."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
