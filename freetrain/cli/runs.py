"""``freetrain runs``: the runs that have been recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from freetrain.cli.helping import group
from freetrain.cli.listing import LISTING, Shape, flatten, print_heading, print_json, print_table
from freetrain.cli.options import argument, json_option, option, shared_option, store_option
from freetrain.errors import InputError
from freetrain.showing.words import NOTHING, or_nothing, show_day, show_time, show_value
from freetrain.store import DecisionSummary, RunDetails, RunSummary, Store, TrainerRecord, default_store_path

if TYPE_CHECKING:
    from freetrain.replay.comparison import RunComparison, RunFigures

LIST_FORMAT = "freetrain-runs/1"
SHOW_FORMAT = "freetrain-run/1"

_COLUMNS = ("ID", "STARTED", "COMMAND", "STATUS", "WINDOW", "DECISIONS", "NODE-HOURS", "U")
_NUMBERS = ("ID", "DECISIONS", "NODE-HOURS", "U")
# Else they would inherit from the listing above them that -h is no help.
_HELP = {"help_option_names": ["-h", "--help"]}

_store = shared_option(store_option)


@group("runs", invoke_without_command=True, context_settings=LISTING)
def runs_group(store_path: Path | None = _store, *, shape: Shape) -> None:
    """List the recorded runs, newest first, or show one of them."""
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        # What is given before the sub-command counts for it, too.
        context.default_map = {context.invoked_subcommand: {"as_json": shape.as_json, "store_path": store_path}}
        return
    runs = _open(store_path).runs()
    document = {"format": LIST_FORMAT, "runs": [asdict(run) for run in runs]}
    shape.print(document, _COLUMNS, map(_cells, runs), _NUMBERS, otherwise="No run has been recorded yet.")


@runs_group.command("show", context_settings=_HELP)
def show_command(
    run_id: int = argument(metavar="ID", type=int),
    with_decisions: bool = option("--decisions", "List the decisions, too."),
    limit: int = option(
        "--limit",
        "Most trainers and decisions to list as text; 0: all. JSON has them all.",
        type=click.IntRange(min=0),
        default=20,
    ),
    as_json: bool = json_option,
    store_path: Path | None = _store,
) -> None:
    """Show a run: its settings, what it came to, and its trainers."""
    store = _open(store_path)
    details = store.run(run_id)
    if as_json:
        whole = asdict(details)
        listed = {"decisions": list(map(asdict, store.decisions(run_id)))} if with_decisions else {}
        print_json({"format": SHOW_FORMAT, **whole.pop("summary"), **whole, **listed})
        return
    _print_details(details, limit)
    if with_decisions:
        decisions = store.decisions(run_id, most=limit or None)
        print_heading(_title("Decisions", len(decisions), details.summary.decision_count))
        columns = ("number", "time", "idle", "lent", "value", "gap", "solve ms", "status", "solver", "notes")
        print_table(columns, map(_decision_cells, decisions), right=("number", *columns[2:7]))


@runs_group.command("compare", context_settings=_HELP)
def compare_command(
    run_ids: tuple[int, ...] = argument(metavar="[ID]…", type=int, nargs=-1),
    sweep: str | None = option("--sweep", "The replays of this sweep [default: the newest].", metavar="NAME"),
    picture: Path | None = option("--picture", "Draw the table, too, as one HTML file.", metavar="FILE.html"),
    as_json: bool = json_option,
    store_path: Path | None = _store,
) -> None:
    """Show replays side by side: these, or those of a sweep."""
    # Here, since lists of runs need no reader of logs.
    from freetrain.replay.comparison import compare_runs, compare_sweep

    if run_ids and sweep:
        raise InputError("Either runs are named, or a sweep.", "Leave one of them out.")
    runs = _open(store_path).runs()
    show_comparison(compare_runs(runs, run_ids) if run_ids else compare_sweep(runs, sweep), picture, as_json)


def _open(path: Path | None) -> Store:
    return Store.open_existing(path or default_store_path())


def _cells(run: RunSummary) -> tuple[str, ...]:
    return (
        str(run.id),
        show_time(run.started_s),
        run.command,
        str(run.status),
        f"{show_day(run.from_s)} to {show_day(run.until_s)}",
        f"{run.decision_count:,}",
        show_value(run.outcome.get("lent_node_hours")),
        show_value(run.outcome.get("u_dedicated")),
    )


def _print_details(details: RunDetails, limit: int) -> None:
    run = details.summary
    print_table(
        ("run", str(run.id)),
        [
            ("command", run.command),
            ("freetrain", run.version),
            ("status", str(run.status)),
            ("started", show_time(run.started_s)),
            ("ended", show_time(run.ended_s)),
            ("window", f"{show_time(run.from_s)} to {show_time(run.until_s)}"),
            ("nodes", show_value(run.node_count)),
            ("decisions", f"{run.decision_count:,}"),
            *((f"  {status}", f"{count:,}") for status, count in details.statuses.items()),
            ("solvers", ", ".join(f"{name} ({count:,})" for name, count in details.solvers.items()) or NOTHING),
            ("trainers", f"{details.trainer_count:,}"),
        ],
    )
    for title, values in (("Settings", run.settings), ("Outcome", run.outcome)):
        if values:
            print_heading(title)
            shown = [(name, show_value(value)) for name, value in flatten(values) if not _is_table(value)]
            print_table(("name", "value"), shown)
    if details.trainers:
        shown_trainers = details.trainers[: limit or None]
        print_heading(_title("Trainers, most samples first", len(shown_trainers), len(details.trainers)))
        columns = ("trainer", "samples", "node-h", "evictions", "rescales", "started", "completed")
        print_table(columns, map(_trainer_cells, shown_trainers), right=columns[1:5])


def _is_table(value: object) -> bool:
    """Whether a value is rows of figures, which only ``--json`` shows."""
    return isinstance(value, list) and any(isinstance(row, dict) for row in value)


def _trainer_cells(trainer: TrainerRecord) -> tuple[str, ...]:
    figures = (trainer.samples, trainer.node_hours, trainer.evictions, trainer.rescales)
    return (trainer.id, *map(show_value, figures), show_time(trainer.started_s), show_time(trainer.completed_s))


def _decision_cells(decision: DecisionSummary) -> tuple[str, ...]:
    figures = (decision.idle_nodes, decision.lent_nodes, decision.objective, decision.gap)
    how = (f"{1000 * decision.solve_s:.1f}", str(decision.status), decision.solver, " ".join(decision.notes))
    return (str(decision.number), show_time(decision.now_s), *map(show_value, figures), *how)


def _title(what: str, shown: int, count: int) -> str:
    return what if shown >= count else f"{what} ({shown:,} of {count:,}; --limit 0 shows all)"


COMPARE_FORMAT = "freetrain-comparison/1"

_FIGURES = ("idle node-h", "lent", "work", "best", "evicted", "holes: lent", "holes: work", "delay", "longest")
_OF_PARTS = ("parts: lent", "parts: work")


def show_comparison(comparison: RunComparison, picture: Path | None, as_json: bool) -> None:
    """Draw the page, if there is a place for it, and print all for programs, or the table."""
    if picture is not None:
        # Here, since lists of runs need no page.
        from freetrain.replay.report import render_comparison, write_page

        write_page(picture, render_comparison(comparison))
    if as_json:
        print_json({"format": COMPARE_FORMAT, **asdict(comparison)})
        return
    parts = _OF_PARTS if any(run.parts for run in comparison.runs) else ()
    energy = ("kWh",) if any(run.energy_kwh is not None for run in comparison.runs) else ()
    figures = (*_FIGURES, *parts, *energy)
    print_table((*comparison.axes, *figures), _rows(comparison, bool(parts), bool(energy)), right=figures)


def _rows(comparison: RunComparison, parts: bool, energy: bool) -> Iterator[tuple[str, ...]]:
    """A line for each run: first what the daemon would have got, then what the holes allow."""
    for run in comparison.runs:
        labels = (run.labels.get(axis, NOTHING) for axis in comparison.axes)
        idle = or_nothing(run.idle_node_hours, "{:,.0f}")
        daemon = _way(run.daemon) if run.daemon else (NOTHING,) * 4
        allowed = _way(run.allowed)[:2]
        delays = (or_nothing(run.delay_mean_s, "{:.1f} s"), or_nothing(run.delay_max_s, "{:.1f} s"))
        in_parts = (_way(run.parts)[:2] if run.parts else (NOTHING, NOTHING)) if parts else ()
        more = (or_nothing(run.energy_kwh, "{:,.0f}"),) if energy else ()
        yield (*labels, idle, *daemon, *allowed, *delays, *in_parts, *more)


def _way(way: RunFigures) -> tuple[str, str, str, str]:
    lent, work, best = (or_nothing(share, "{:.1%}") for share in (way.lent, way.work, way.best))
    return lent, work, best, or_nothing(way.evicted_nodes, "{:,}")
