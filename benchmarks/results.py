"""Makes docs/reference/results.md: a sweep over public traces, done or gone on with, and its tables.

python -m benchmarks.results --data DIR [--log NAME]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import click

from freetrain.replay.comparison import ComparedRun, compare_sweep
from freetrain.replay.sweep import Sweep, do_here, known, read_sweep, record
from freetrain.store import Store

SPEC = Path(__file__).with_name("results.toml")
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
    _do(sweep, logs or names, there, workers)
    runs = [run for run in compare_sweep(there.runs(), sweep.name).runs if run.labels["log"] in (logs or names)]
    page = output.read_text() if output.exists() else "# Results\n"
    output.write_text(with_sections(page, dict(_sections(runs)), names))


def _do(sweep: Sweep, logs: Sequence[str], store: Store, workers: int) -> None:
    done = known(store, sweep)
    missing = [cell for cell in sweep.cells if cell.labels["log"] in logs and cell.key not in done]
    for number, one in enumerate(do_here(missing, workers), 1):
        if one.document is not None:
            record(store, sweep, one, time.time())
        click.echo(f"{number} of {len(missing)}: {one.cell.name} {one.why}", err=True)


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


def _sections(runs: Sequence[ComparedRun]) -> Iterator[tuple[str, str]]:
    for log, of_log in groupby(runs, key=lambda run: run.labels["log"]):
        yield log, "\n".join(_tables(list(of_log)))


def _tables(cells: Sequence[ComparedRun]) -> Iterator[str]:
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
