"""Makes docs/results.md: a sweep over public traces, done or gone on with, and its tables.

python -m benchmarks.results --data DIR --output docs/results.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from freetrain.cli.sweep import sweep_command
from freetrain.replay.comparison import ComparedRun, compare_sweep
from freetrain.store import Store

SPEC = Path(__file__).with_name("results.toml")
_WAYS = (
    ("Work as the daemon would have gone, as a share of a dedicated machine's", "daemon"),
    ("The same, as the holes allow", "allowed"),
)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Where the traces are.")
@click.option("--store", type=click.Path(path_type=Path), default=Path("benchmarks/results/results.db"))
@click.option("--workers", type=int, default=2)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/results.md"))
def main(data: Path, store: Path, workers: int, output: Path) -> None:
    """Do what is missing of the sweep, and write the page."""
    arguments = [str(SPEC), "--data", str(data), "--store", str(store), "--workers", str(workers)]
    sweep_command.main(arguments, standalone_mode=False)
    runs = compare_sweep(Store.open_existing(store).runs(), "results").runs
    head, _, _ = output.read_text().partition("\n## ") if output.exists() else ("# Results\n", "", "")
    output.write_text(head.rstrip() + "\n\n" + "\n".join(_tables(runs)))


def _tables(runs: Sequence[ComparedRun]) -> Iterator[str]:
    for log, of_log in groupby(runs, key=lambda run: run.labels["log"]):
        cells = list(of_log)
        yield f"## {log}\n"
        yield f"{cells[0].idle_node_hours:,.0f} idle node-hours.\n"
        for title, way in _WAYS:
            yield f"{title}:\n"
            yield from _table(cells, way)
        yield from _bound(cells)
        yield from _felt(cells)


def _table(cells: Sequence[ComparedRun], way: str) -> Iterator[str]:
    costs = list(dict.fromkeys(run.labels["costs"] for run in cells))
    yield f"| method | {' | '.join(costs)} |"
    yield f"|---|{'--:|' * len(costs)}"
    for method in dict.fromkeys(run.labels["method"] for run in cells):
        row = [run for run in cells if run.labels["method"] == method]
        shown = [getattr(run, way) for run in row]
        if any(shown):
            yield f"| {method} | {' | '.join('–' if each is None else f'{each.work:.3f}' for each in shown)} |"
    yield ""


def _bound(cells: Sequence[ComparedRun]) -> Iterator[str]:
    """The best division of the holes, which any of the replays tells by how far it was from it."""
    known = [run.allowed for run in cells if run.allowed.work and run.allowed.best]
    if known:
        bounds = [way.work / way.best for way in known if way.work is not None and way.best is not None]
        yield f"The best division at every instant, changes costing nothing, would get {max(bounds):.3f}.\n"


def _felt(cells: Sequence[ComparedRun]) -> Iterator[str]:
    means = [run.delay_mean_s for run in cells if run.delay_mean_s is not None]
    longest = [run.delay_max_s for run in cells if run.delay_max_s is not None]
    if means:
        yield (
            f"Jobs of the site that start on idle nodes start {min(means):.2f} to {max(means):.2f} s later on "
            f"average, none more than {max(longest):.1f} s.\n"
        )


if __name__ == "__main__":
    main()
