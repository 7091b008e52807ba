"""Replays the systems side by side on public traces, and puts table and picture into docs/evidence/policies.md.

python -m benchmarks.systems --data DIR
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

import freetrain.policies
from benchmarks.systems_picture import Figure, Measured, draw
from freetrain.cli.sweep import sweep_command
from freetrain.policies.registry import VARIANTS
from freetrain.replay.comparison import compare_sweep
from freetrain.store import Store

SPEC = Path(__file__).with_name("systems.toml")
KEPT = Path(freetrain.policies.__file__).with_name("measured.py")
_MODULE = '''"""Policies on three traces (docs/evidence/policies.md), by ``python -m benchmarks.systems``."""

MEASURED: tuple[tuple[str, str, float, int, float, float], ...] = (
{rows}
)
"""Policy, trace, node-hours of work, completed, mean hours until then, hours of the longest wait."""
'''
BEGIN, END = "<!-- replayed -->\n", "<!-- replayed: end -->\n"

FIGURES = (
    Figure("U", lambda found: found["u_work"], "{:.3f}"),
    Figure("work, node-h", lambda found: found["work"] / 3600, "{:,.0f}"),
    Figure("completed", lambda found: found["trainers_completed"], "{:,}"),
    Figure("mean h to complete", lambda found: _hours(found["completion_mean_s"]), "{:.2f}"),
    Figure("longest wait, h", lambda found: _hours(found["longest_wait_s"]), "{:.1f}"),
    Figure("rescales", lambda found: found["rescales"], "{:,}"),
    Figure("TB between leaves", lambda found: _tera(found.get("leaf_bytes")), "{:,.0f}"),
    Figure("links between leaves", lambda found: found["leaf_links"], "{:.2f}"),
    Figure("decision, ms: median", lambda found: 1000 * found["solve_p50_s"], "{:.1f}"),
    Figure("95 %", lambda found: 1000 * found["solve_p95_s"], "{:.1f}"),
)
_PICTURED = ("U", "mean h to complete", "rescales", "links between leaves")


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Where the traces are.")
@click.option("--store", type=click.Path(path_type=Path), default=Path("benchmarks/results/systems.db"))
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evidence/policies.md"))
def main(data: Path, store: Path, output: Path) -> None:
    """Do what is missing of the sweep, one replay after the other; write the table, and the picture beside it."""
    arguments = [str(SPEC), "--data", str(data), "--store", str(store), "--workers", "1"]
    sweep_command.main(arguments, standalone_mode=False)
    measured = read(Store.open_existing(store))
    text = output.read_text()
    before, _, rest = text.partition(BEGIN)
    output.write_text(before + BEGIN + "\n".join(table(measured)) + "\n" + END + rest.partition(END)[2])
    pictured = [figure for figure in FIGURES if figure.name in _PICTURED]
    output.with_name("systems.svg").write_text(draw(pictured, measured))
    KEPT.write_text(kept(measured))


def read(store: Store) -> list[Measured]:
    """What each replay of the sweep came to, in its order."""
    runs = store.runs()
    outcomes: Mapping[int, Mapping[str, Any]] = {run.id: run.outcome for run in runs}
    compared = compare_sweep(runs, "systems").runs
    return [Measured(run.labels["log"], run.labels["method"], outcomes[run.id]) for run in compared]


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """The table in Markdown."""
    yield f"| trace | method | {' | '.join(figure.name for figure in FIGURES)} |"
    yield f"|---|---|{'--:|' * len(FIGURES)}"
    for log, of_log in groupby(measured, key=lambda one: one.log):
        for one in of_log:
            yield f"| {log} | {one.method} | {' | '.join(figure.show(one.outcome) for figure in FIGURES)} |"


def kept(measured: Sequence[Measured]) -> str:
    """The figures by which a policy is chosen as a module, for ``freetrain policies``."""
    rows = []
    for one in (one for one in measured if one.method in VARIANTS):
        hours = (f"{one.outcome[name] / 3600:.2f}" for name in ("work", "completion_mean_s", "longest_wait_s"))
        work, mean, wait = hours
        rows.append(
            f'    ("{one.method}", "{one.log}", {work}, {one.outcome["trainers_completed"]}, {mean}, {wait}),'
        )
    return _MODULE.format(rows="\n".join(rows))


def _tera(count: float | None) -> float | None:
    return None if count is None else count / 1e12


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3600


if __name__ == "__main__":
    main()
