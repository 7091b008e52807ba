"""Makes docs/reference/results.md: a sweep over public traces, done or gone on with, and its tables.

python -m benchmarks.results --data DIR [--log NAME]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path

import click

from benchmarks.experiments.comparing import interval
from freetrain.replay.comparison import ComparedRun, compare_sweep
from freetrain.replay.sweep import Sweep, do_here, known, read_sweep, record
from freetrain.store import Store

SPEC = Path(__file__).with_name("results.toml")
ORDERS = 5
"""So many orders of the trainings show what chance there is in one of them."""
_COSTS_OF_ORDERS = "60 / 60 / 360 / 60"
_BESIDE = "freetrain"
_METHODS_OF_ORDERS = (_BESIDE, "freetrain, perfect", "published, 600 s", "equal share", "greedy")
_WAYS = (
    ("Work as the daemon would have gone, as a share of a dedicated machine's", "daemon"),
    ("The same, as the holes allow", "allowed"),
)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Where the traces are.")
@click.option("--log", "logs", multiple=True, metavar="NAME", help="This log alone, by its name in the sweep.")
@click.option("--store", type=click.Path(path_type=Path), default=Path("benchmarks/results/results.db"))
@click.option("--workers", type=int, default=2)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/reference/results.md"))
def main(data: Path, logs: tuple[str, ...], store: Path, workers: int, output: Path) -> None:
    """Do what is missing of the sweep, and write what is there into the page."""
    sweep = read_sweep(SPEC, data)
    names = list(dict.fromkeys(cell.labels["log"] for cell in sweep.cells))
    if strangers := set(logs).difference(names):
        raise click.BadParameter(f"there is no {min(strangers)}; there are {', '.join(names)}", param_hint="--log")
    store.parent.mkdir(parents=True, exist_ok=True)
    there = Store.open(store)
    in_orders = with_orders(sweep)
    chosen = logs or names
    for wanted in (sweep, in_orders):
        _do(wanted, chosen, there, workers)
    runs, runs_in_orders = (
        [run for run in compare_sweep(there.runs(), done.name).runs if run.labels["log"] in chosen]
        for done in (sweep, in_orders)
    )
    page = output.read_text() if output.exists() else "# Results\n"
    output.write_text(with_sections(page, dict(_sections(runs, runs_in_orders)), names))


def with_orders(sweep: Sweep) -> Sweep:
    """Some of its replays, as the holes allow, with the trainings in several orders."""
    chosen = [
        cell
        for cell in sweep.cells
        if cell.labels["method"] in _METHODS_OF_ORDERS and cell.labels["costs"] == _COSTS_OF_ORDERS
    ]
    cells = (
        replace(
            cell,
            number=number,
            labels={**cell.labels, "order": str(order)},
            arguments=(*cell.arguments, "--as", "ideal", "--trainers", f"preset:mix@{order}"),
            key=f"{cell.key}@{order}",
        )
        for number, (cell, order) in enumerate(product(chosen, range(1, ORDERS + 1)))
    )
    return Sweep(f"{sweep.name}, orders", tuple(cells))


def _do(sweep: Sweep, logs: Sequence[str], store: Store, workers: int) -> None:
    done = known(store, sweep)
    missing = [cell for cell in sweep.cells if cell.labels["log"] in logs and cell.key not in done]
    for number, replay in enumerate(do_here(missing, workers), 1):
        if replay.document is not None:
            record(store, sweep, replay, time.time())
        click.echo(f"{number} of {len(missing)}: {replay.cell.name} {replay.why}", err=True)


def with_sections(page: str, sections: Mapping[str, str], order: Sequence[str]) -> str:
    """The page, in which sections of logs are new or replaced; others stay as they are.

    Args:
        page: a head, and sections that begin with ``## `` and the log's name.
        sections: text of each log that is known now, without that heading.
        order: names of all logs.
    """
    head, *old = page.split("\n## ")
    known_before = dict(section.split("\n", 1) for section in old)
    texts = {**known_before, **sections}
    shown = [f"## {name}\n\n{texts[name].strip()}\n" for name in order if name in texts]
    return "\n".join((head.rstrip() + "\n", *shown))


def _sections(runs: Sequence[ComparedRun], in_orders: Sequence[ComparedRun]) -> Iterator[tuple[str, str]]:
    for log, of_log in groupby(runs, key=lambda run: run.labels["log"]):
        yield log, "\n".join(_tables(list(of_log), [run for run in in_orders if run.labels["log"] == log]))


def _tables(cells: Sequence[ComparedRun], in_orders: Sequence[ComparedRun]) -> Iterator[str]:
    yield f"{cells[0].idle_node_hours:,.0f} idle node-hours.\n"
    for title, way in _WAYS:
        yield f"{title}:\n"
        yield from _table(cells, way)
    yield from _bound(cells)
    work: dict[str, list[float]] = {}
    for run in in_orders:
        work.setdefault(run.labels["method"], []).append(run.allowed.work or 0.0)
    # An order whose replay failed would be compared with another one.
    whole = {method: values for method, values in work.items() if len(values) == ORDERS}
    if _BESIDE in whole:
        yield from orders_table(whole)


def orders_table(work: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """What other orders of the trainings change.

    Args:
        work: method → what it came to with each order.
    """
    yield (
        f"As the holes allow, {_COSTS_OF_ORDERS}, mean of {ORDERS} orders of the trainings, and the difference to"
        f" *{_BESIDE}* order by order, with 95 % intervals:\n"
    )
    yield "| method | work | difference |"
    yield "|---|--:|--:|"
    for method, values in work.items():
        differences = [value - beside for value, beside in zip(values, work[_BESIDE], strict=True)]
        (mean, within), (apart, apart_within) = interval(values), interval(differences)
        difference = "" if method == _BESIDE else f"{apart:+.3f} ± {apart_within:.3f}"
        if difference and abs(apart) <= apart_within:
            difference += " (none seen)"
        yield f"| {method} | {mean:.3f} ± {within:.3f} | {difference} |"
    yield ""


def _table(cells: Sequence[ComparedRun], way: str) -> Iterator[str]:
    costs = list(dict.fromkeys(run.labels["costs"] for run in cells))
    yield f"| method | {' | '.join(costs)} |"
    yield f"|---|{'--:|' * len(costs)}"
    for method in dict.fromkeys(run.labels["method"] for run in cells):
        row = [run for run in cells if run.labels["method"] == method]
        shown = [getattr(run, way) for run in row]
        if any(shown):
            works = ("–" if figures is None else f"{figures.work:.3f}" for figures in shown)
            yield f"| {method} | {' | '.join(works)} |"
    yield ""


def _bound(cells: Sequence[ComparedRun]) -> Iterator[str]:
    """The best division of the holes, which any of the replays tells by how far it was from it."""
    known = [run.allowed for run in cells if run.allowed.work and run.allowed.best]
    if known:
        bounds = [way.work / way.best for way in known if way.work is not None and way.best is not None]
        yield f"The best division at every instant, changes costing nothing, would get {max(bounds):.3f}.\n"


if __name__ == "__main__":
    main()
