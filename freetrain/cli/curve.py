"""``freetrain curve``: what a trainer makes of its nodes, and what it would make of more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from freetrain.cli.output import NOTHING, print_json, print_table, show_value
from freetrain.core.throughput_fit import FittedCurve, Observation, ScalingModel, fit_throughput
from freetrain.elastic.directory import TrainerDirectory
from freetrain.elastic.progress_line import Rate
from freetrain.elastic.progress_log import ProgressLog, read_progress
from freetrain.errors import InputError

FORMAT = "freetrain-curve/1"

_MODELS = {
    ScalingModel.MEASURED: "One size only: taken as flat beyond it",
    ScalingModel.AMDAHL: "Amdahl's law",
    ScalingModel.RING: "Ring all-reduce",
}


@click.command("curve")
@click.argument("trainer", type=click.Path(path_type=Path))
@click.option(
    "--nodes", "most_nodes", type=click.IntRange(1), help="Up to so many.  [default: twice the most seen]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def curve_command(trainer: Path, most_nodes: int | None, as_json: bool) -> None:
    """Show a trainer's throughput by number of nodes: as measured, and as fitted between and beyond.

    TRAINER is the directory given to 'freetrain run --trainer'. The fit is what the daemon would decide with.
    """
    log = _read(trainer)
    most = most_nodes or 2 * max(rate.nodes for rate in log.rates)
    fit = fit_throughput([Observation(rate.nodes, rate.samples_per_s, rate.elapsed_s) for rate in log.rates], most)
    pauses_s = [rescale.pause_s for rescale in log.rescales]
    if as_json:
        print_json({"format": FORMAT, "fit": asdict(fit), "rescales": [asdict(one) for one in log.rescales]})
        return
    print_table(
        ["nodes", "samples/s", "per node", "measured s", "step s", "communication", "data wait"],
        [_row(nodes, rate, log) for nodes, rate in fit.curve if nodes <= most],
        right=["nodes", "samples/s", "per node", "measured s", "step s", "communication", "data wait"],
    )
    click.echo(f"\n{_describe(fit)}")
    if pauses_s:
        click.echo(f"{len(pauses_s)} rescales, {sum(pauses_s):.3g} s lost, {max(pauses_s):.3g} s at most.")


def _read(trainer: Path) -> ProgressLog:
    path = TrainerDirectory(trainer.absolute()).progress_path
    try:
        log = read_progress(path)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}.",
            "Name the directory that was given to 'freetrain run --trainer'.",
        ) from error
    if not log.rates:
        raise InputError(f"{path} has no measurement yet.", "The first comes some seconds after the first step.")
    return log


def _row(nodes: int, samples_per_s: float, log: ProgressLog) -> list[str]:
    seen = [rate for rate in log.rates if rate.nodes == nodes]
    cells = [str(nodes), show_value(samples_per_s), show_value(samples_per_s / nodes)]
    if not seen:
        return cells + [NOTHING] * 4
    shares = [
        f"{_mean(seen, lambda rate: rate.communication_s / rate.step_s):.0%}",
        f"{_mean(seen, lambda rate: rate.data_wait_share):.0%}",
    ]
    measured_s = sum(rate.elapsed_s for rate in seen)
    return [*cells, f"{measured_s:.1f}", show_value(_mean(seen, lambda rate: rate.step_s)), *shares]


def _mean(rates: list[Rate], value: Callable[[Rate], float]) -> float:
    """Weighted by how long each was measured."""
    return sum(value(rate) * rate.elapsed_s for rate in rates) / sum(rate.elapsed_s for rate in rates)


def _describe(fit: FittedCurve) -> str:
    error = "" if math.isnan(fit.relative_error) else f", {fit.relative_error:.1%} off the measurements"
    return f"{_MODELS[fit.model]}{error}; {fit.observations} measurements at {fit.sizes} sizes."
