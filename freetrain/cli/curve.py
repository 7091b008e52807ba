"""``freetrain curve``: what a trainer makes of its nodes, and what it would make of more."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from freetrain.cli.curve_servers import describe_servers
from freetrain.cli.curve_speeds import NOTHING_LEARNED, Learned, learned_of
from freetrain.cli.options import config_option
from freetrain.cli.output import print_json, print_table, show_value
from freetrain.core.observed import SeenCosts, SizeChange
from freetrain.core.throughput import FittedCurve, Observation, ScalingModel, fit_throughput
from freetrain.daemon.trainers.change_costs import believed_costs
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.progress_line import Rate
from freetrain.elastic.on_disk.progress_log import ProgressLog, read_progress
from freetrain.errors import InputError
from freetrain.showing.words import NOTHING
from freetrain.slurm.tags import Tag

FORMAT = "freetrain-curve/1"

_MODELS = {
    ScalingModel.MEASURED: "One size only: taken as flat beyond it",
    ScalingModel.AMDAHL: "Amdahl's law",
    ScalingModel.RING: "Ring all-reduce",
}


@dataclass(frozen=True, slots=True)
class _Axis:
    """What throughput is shown by."""

    unit: str
    size: Callable[[Rate], int]


_NODES = _Axis("node", lambda rate: rate.nodes)
_WORKERS = _Axis("worker", lambda rate: rate.world)


@click.command("curve")
@click.argument("trainer", type=click.Path(path_type=Path))
@click.option(
    "--nodes",
    "most",
    type=click.IntRange(1),
    help="Up to so many, of workers where these are shown.  [default: twice the most seen]",
)
@click.option(
    "--save",
    "save_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write its curve and what changes cost it, as a trainer for replays (freetrain-trainers/1).",
)
@click.option(
    "--job",
    "job",
    metavar="ID",
    help="Its job: how fast the daemon has learned that it is on which kinds of nodes is shown, and saved.",
)
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def curve_command(
    trainer: Path,
    most: int | None,
    save_path: Path | None,
    job: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Show a trainer's throughput by number of nodes: as measured, and as fitted between and beyond.

    TRAINER is the directory given to 'freetrain run --trainer'. The fit is what the daemon would decide with. If
    the same nodes had now more workers, now fewer, as at your desk, it is by number of workers instead.

    The progress does not say on which nodes it was made. Where its tag names kinds of nodes the daemon knows; with
    --job the fit is that at speed 1, of what the daemon has seen.
    """
    log = _read(trainer)
    learned = learned_of(job, config_path) if job is not None else NOTHING_LEARNED
    axis = _NODES if learned.at_speed_1 else _axis(log.rates)
    most = most or 2 * max(map(axis.size, log.rates))
    seen = [Observation(axis.size(rate), rate.samples_per_s, rate.elapsed_s) for rate in log.rates]
    seen = [*learned.at_speed_1] or seen
    fit = fit_throughput(seen, most)
    if save_path is not None:
        _save(save_path, trainer, log, axis, fit, learned)
    pauses_s = [rescale.pause_s for rescale in log.rescales]
    if as_json:
        rescales = [asdict(one) for one in log.rescales]
        speeds = dict(learned.speeds)
        document = {"format": FORMAT, "by": f"{axis.unit}s", "fit": asdict(fit), "rescales": rescales}
        print_json({**document, "speeds": speeds})
        return
    columns = [f"{axis.unit}s", "samples/s", f"per {axis.unit}"]
    columns += ["measured s", "step s", "communication", "data wait"]
    by_size = {size: [one for one in log.rates if axis.size(one) == size] for size, _ in fit.curve if size <= most}
    print_table(columns, [_row(size, rate, by_size[size]) for size, rate in fit.curve if size in by_size], columns)
    click.echo(f"\n{_describe(fit)}")
    if axis is _WORKERS:
        click.echo("By workers, as the same nodes had different numbers of them; the daemon decides by nodes.")
    if learned.speeds:
        click.echo(learned.for_the_tag)
    for sentence in describe_servers(log.rates):
        click.echo(sentence)
    if pauses_s:
        click.echo(f"{len(pauses_s)} rescales, {sum(pauses_s):.3g} s lost, {max(pauses_s):.3g} s at most.")
    _tell_longest("Workers that were to be replaced took up to {:.3g} s to save and end.", log, "save_s")
    _tell_longest("New ones took up to {:.3g} s to their first step.", log, "start_s")


def _save(path: Path, trainer: Path, log: ProgressLog, axis: _Axis, fit: FittedCurve, learned: Learned) -> None:
    """Costs that were not seen are those of a tag that says nothing; boots are never in the progress."""
    if axis is not _NODES:
        raise InputError(
            "The curve cannot be saved: it is by workers, and replays lend nodes.",
            "Let every node have the same number of workers.",
        )
    changes = (SizeChange(one.time_s, one.nodes, one.cause, one.pause_s, one.start_s) for one in log.rescales)
    costs = asdict(believed_costs(SeenCosts().after(changes, ()), Tag()))
    known = {name: seconds for name, seconds in costs.items() if seconds is not None}
    described = {"id": trainer.absolute().name, "throughput": fit.curve, **known, **learned.choices}
    document = {"format": "freetrain-trainers/1", "trainers": [described]}
    try:
        path.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.", "Name a file that can be written.") from error


def _tell_longest(sentence: str, log: ProgressLog, part: str) -> None:
    """Of the rescales in restart mode, where the parts of a pause are known."""
    seconds = [value for one in log.rescales if (value := getattr(one, part)) is not None]
    if seconds:
        click.echo(sentence.format(max(seconds)))


def _read(trainer: Path) -> ProgressLog:
    path = TrainerDirectory(trainer.absolute()).progress_path
    if path.exists() and not path.is_file():  # a pipe, say, in somebody else's directory
        raise InputError(f"{path} is not a plain file.", "Nothing but what a training writes itself is read.")
    try:
        log = read_progress(path)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}.",
            "Name the directory that was given to 'freetrain run --trainer'.",
        ) from error
    if not log.rates:
        raise InputError(
            f"{path} has no measurement yet.",
            "The first comes some seconds after the first step; in restart mode only with --steps-from.",
        )
    return log


def _axis(rates: Sequence[Rate]) -> _Axis:
    """By nodes, unless the same number of them was seen with different numbers of workers."""
    sizes = {(rate.nodes, rate.world) for rate in rates}
    return _NODES if len(sizes) == len({nodes for nodes, _ in sizes}) else _WORKERS


def _row(size: int, samples_per_s: float, seen: list[Rate]) -> list[str]:
    cells = [str(size), show_value(samples_per_s), show_value(samples_per_s / size)]
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
