"""``freetrain top``: how things stand, live in a terminal."""

from __future__ import annotations

import contextlib
import select
import sys
import termios
import tty
from collections import Counter
from collections.abc import Iterator

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from freetrain.cli.helping import command
from freetrain.cli.jobs import Chosen, choosing_options
from freetrain.cli.options import Duration
from freetrain.cli.site import Site, site_option
from freetrain.client.documents import status_document
from freetrain.client.trainings import state_word
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.showing.words import printable
from freetrain.slurm.parsing import expand_nodes

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
@site_option
@choosing_options
@click.option("--interval", "interval_s", type=Duration(least_s=0.2), default="2s", help="Time between two looks.")
@click.option("--once", is_flag=True, help="Print it once, and end.")
def top_command(site: Site, chosen: Chosen, interval_s: float, once: bool) -> None:
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
            if _pressed(interval_s) in ("q", "Q"):
                return


def draw(standing: Standing, chosen: Chosen, max_rows: int | None, width: int) -> Group:
    """The whole picture, ``width`` characters wide, with ``max_rows`` trainings at most."""
    lines = [Text(line, style="" if standing.answers else "red") for line in map(printable, standing.lines())]
    look = standing.look
    if look is None:
        return Group(*lines)
    return Group(*lines, Text(), *_bar(standing, width), Text(), _trainers(standing, chosen, max_rows))


def _bar(standing: Standing, width: int) -> Iterator[Text]:
    counts = Counter(status_document(standing).nodes)
    total = sum(counts.values())
    bar, legend = Text(), Text()
    for state, style in _STYLES.items():
        cells = round(counts[state] * min(width, total) / total) if total else 0
        bar.append(("#" if state == "lent" else "-" if state == "not lent" else "=") * cells, style)
        legend.append(f"{counts[state]} {state}  ", style)
    yield bar
    yield legend


def _trainers(standing: Standing, chosen: Chosen, max_rows: int | None) -> Table | Text:
    shown = [trainer for trainer in standing.trainers.values() if _is_chosen(trainer, chosen)]
    shown.sort(key=lambda trainer: (-len(expand_nodes(trainer.lent)), trainer.id))
    if not shown:
        return Text("No such training waits or runs." if chosen != Chosen() else "No training waits or runs.")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("TRAINING", "USER", "NODES", "ASKED", "SAMPLES", "EVICTIONS", "STATE"):
        right = column in ("NODES", "ASKED", "SAMPLES", "EVICTIONS")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for trainer in shown[:max_rows]:
        nodes, asked = len(expand_nodes(trainer.lent)), len(expand_nodes(trainer.asked))
        now = "running" if nodes else standing.waiting_text(trainer)
        state = printable(standing.trouble_of(trainer) or now)
        samples = f"{trainer.samples_done:,.0f}"
        evictions = str(trainer.ends.get("preempted", 0))
        cells = (trainer.id, trainer.owner, str(nodes), str(asked), samples, evictions, state)
        table.add_row(*cells, style="" if nodes else "bright_black")
    if max_rows is not None and len(shown) > max_rows:
        table.caption = f"{len(shown) - max_rows} more"
    return table


def _is_chosen(trainer: TrainerStatus, chosen: Chosen) -> bool:
    lent, asked = expand_nodes(trainer.lent), expand_nodes(trainer.asked)
    return chosen.has(trainer.owner, trainer.account, state_word(trainer.state, lent, asked), lent | asked)


def _pressed(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return sys.stdin.read(1) if ready else ""


@contextlib.contextmanager
def _each_key() -> Iterator[None]:
    """The terminal gives each key as it is pressed; afterwards it is as before."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
