"""Runs the measurements, prints their tables, and keeps the raw figures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import benchmarks.elastic
from benchmarks.elastic import checkpoints, rewrapping
from benchmarks.elastic.events import Conditions, Event, Outcome, measure_by_turns
from benchmarks.elastic.membership import measure_membership
from benchmarks.elastic.memory import Memory, measure_memory
from benchmarks.elastic.processes import no_survivors
from benchmarks.elastic.progress import measure_progress
from benchmarks.elastic.servers import measure_pauses, measure_steps
from benchmarks.elastic.sizes import PARAMETERS, measure_sizes
from benchmarks.elastic.systems import ADOPT, FREETRAIN, RESTART, TORCHRUN, TORCHRUN_AGREEING
from benchmarks.elastic.tables import (
    Table,
    checkpoint_table,
    membership_table,
    memory_table,
    pause_table,
    progress_table,
    rewrap_table,
    served_table,
    size_table,
)
from benchmarks.machine import machine_facts, version_facts
from freetrain.cli.listing import print_heading, print_table

PARTS = (
    "pauses", "sizes", "rewraps", "memory", "checkpoints", "membership", "progress", "servers",
    "server pauses",
)  # fmt: skip
SYSTEMS = {"freetrain": FREETRAIN, "adopt": ADOPT, "restart": RESTART, "torchrun": TORCHRUN}
EVENTS = (
    Event("grow 2→4", 2, 4, "join"),
    Event("leave 4→3", 4, 3, "leave"),
    Event("kill -9, 3→2", 3, 2, "kill"),
    Event("grow 2→3", 2, 3, "join"),
    Event("kill -9 of the store's host, 3→2", 3, 2, "kill store"),
)
"""In freetrain the store's host is rank 0's."""


def main() -> None:
    """Measure what is asked for."""
    given = _arguments()
    document: dict[str, Any] = {
        "format": "freetrain-bench-elastic/1",
        "machine": machine_facts(),
        "versions": version_facts("freetrain", "torch"),
        "conditions": asdict(Conditions()),
    }
    with no_survivors():
        for part in PARTS:
            if part in given.only:
                table, raw = _measure(part, given)
                document[part] = raw
                _print(table)
                if given.json:
                    given.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.elastic",
        description=benchmarks.elastic.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave out the other parts")
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEMS, default=tuple(SYSTEMS), help="whose pauses are measured, by turns"
    )
    parser.add_argument("--repeats", type=int, default=4, metavar="N", help="of each measurement (default 4)")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="adam", help="of the models by size")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="millions of parameters of these models")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="joined by another, by size (default 2)")
    parser.add_argument(
        "--changes", type=int, default=100, metavar="N", help="until the last look at memory (default 100)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every single figure here")
    return parser.parse_args()


def _measure(part: str, given: argparse.Namespace) -> tuple[Table, Any]:
    systems = [SYSTEMS[name] for name in given.systems]
    match part:
        case "pauses":
            outcomes = _told(measure_by_turns(systems, EVENTS, given.repeats))
            return pause_table(outcomes), [asdict(outcome) for outcome in outcomes]
        case "sizes":
            sizes = [size * 10**6 for size in given.sizes or ()] or PARAMETERS
            outcomes = _told(measure_sizes(systems, given.optimizer, given.repeats, sizes, given.ranks))
            return size_table(outcomes), [asdict(outcome) for outcome in outcomes]
        case "rewraps":
            models = [size * 10**6 for size in given.sizes or ()] or rewrapping.PARAMETERS
            rewraps = list(rewrapping.measure_rewraps(models, given.optimizer))
            return rewrap_table(rewraps), [asdict(one) for one in rewraps]
        case "memory":
            found = list(_told_of_memory(measure_memory(given.changes, given.optimizer)))
            return memory_table(found), [asdict(one) for one in found]
        case "checkpoints":
            models = [size * 10**6 for size in given.sizes or ()] or checkpoints.PARAMETERS
            costs = list(checkpoints.measure_checkpoints(models, given.optimizer))
            return checkpoint_table(costs), [asdict(cost) for cost in costs]
        case "servers":
            steps = list(measure_steps())
            return served_table(steps), [asdict(one) for one in steps]
        case "server pauses":
            outcomes = _told(measure_pauses(given.repeats))
            return pause_table(outcomes), [asdict(outcome) for outcome in outcomes]
        case "membership":
            times = list(measure_membership((FREETRAIN, TORCHRUN, TORCHRUN_AGREEING), given.repeats))
            return membership_table(times), [asdict(one) for one in times]
        case _:
            cost = measure_progress()
            return progress_table(cost), asdict(cost)


def _told(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """All outcomes, each told as it comes."""
    kept = []
    for outcome in outcomes:
        result = f"{outcome.change.pause_s:.3f} s" if outcome.change else outcome.failure
        size = f"{outcome.parameters / 1e6:g} M parameters"
        click.echo(f"{outcome.system}, {size}, {outcome.event}, repeat {outcome.repeat}: {result}", err=True)
        kept.append(outcome)
    return kept


def _told_of_memory(found: Iterable[Memory]) -> Iterator[Memory]:
    for one in found:
        resident_mb, needed_mb = one.resident_bytes / 1e6, one.needed_bytes / 1e6
        without_free = f"{needed_mb:.0f} MB without free, {one.threads} threads"
        click.echo(f"{one.changes} changes: {resident_mb:.0f} MB, {without_free}", err=True)
        yield one


def _print(table: Table) -> None:
    print_heading(table.title)
    print_table(table.columns, table.rows, right=table.columns[1:])
    for note in table.notes:
        click.echo(note)


if __name__ == "__main__":
    main()
