"""``freetrain curve``: a trainer's throughput by number of nodes, as measured and as fitted."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import print_json, print_table
from freetrain.cli.options import argument, json_option, option
from freetrain.cli.site import SiteContext
from freetrain.client.trainings import speeds_in_tag
from freetrain.core.bounds import SERVERS
from freetrain.core.observed import SeenCosts, SizeChange
from freetrain.core.throughput import FittedCurve, Observation, ScalingModel, fit_throughput
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.daemon.trainers.kinds import believed_costs
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.progress import ProgressLog, Rate, read_progress
from freetrain.errors import InputError, explained
from freetrain.policies.smd import LEAST_POINTS, Point, ServerModel, fastest, fit_servers
from freetrain.replay.trainers import UNNAMED
from freetrain.showing.words import NOTHING, show_value
from freetrain.slurm.tags import Tag

FORMAT = "freetrain-curve/1"

_MODELS = {
    ScalingModel.MEASURED: "One size only: taken as flat beyond it",
    ScalingModel.AMDAHL: "Amdahl's law",
    ScalingModel.RING: "Ring all-reduce",
}

# Factor beyond the largest sizes seen up to which the fit is asked: farther out it says little.
_BEYOND = 2

# Relative. The model is of steps of one size; the last one of an epoch is smaller.
_SAME_BATCH = 0.05


@dataclass(frozen=True, slots=True)
class _Axis:
    """Axis of a curve: its unit, and the size of a measured rate on it."""

    unit: str
    size: Callable[[Rate], int]


_NODES = _Axis("node", lambda rate: rate.nodes)
_WORKERS = _Axis("worker", lambda rate: rate.world)


@command("curve")
def curve_command(
    *,
    trainer: Path = argument(),
    max_size: int | None = option(
        "--nodes",
        "Up to so many, of workers where these are shown.  [default: twice the most seen]",
        type=click.IntRange(1),
    ),
    save_path: Path | None = option(
        "--save", "Write its curve and what changes cost it, as a trainer for replays (freetrain-trainers/1)."
    ),
    job: str | None = option(
        "--job",
        "Its job: how fast the daemon has learned that it is on which kinds of nodes is shown, and saved.",
        metavar="ID",
    ),
    site: SiteContext,
    as_json: bool = json_option,
) -> None:
    """Show a trainer's throughput by number of nodes: as measured, and as fitted between and beyond.

    TRAINER is the directory given to 'freetrain run --trainer'. The fit is what the daemon would decide with. If
    the same nodes had now more workers, now fewer, as at your desk, it is by number of workers instead.

    The progress does not say on which nodes it was made. Where its tag names kinds of nodes the daemon knows; with
    --job the fit is that at speed 1, of what the daemon has seen.
    """
    log = _read(trainer)
    published = _published(job, site) if job is not None else None
    speeds, rates = (published.speeds, published.seen_rates) if published is not None else ({}, {})
    # By workers where the same number of nodes was seen with different numbers of them
    sizes = {(rate.nodes, rate.world) for rate in log.rates}
    axis = _NODES if rates or len(sizes) == len({nodes for nodes, _ in sizes}) else _WORKERS
    max_size = max_size or 2 * max(map(axis.size, log.rates))
    at_speed_1 = [Observation(nodes, rate) for nodes, rate in rates.items()]
    seen = [Observation(axis.size(rate), rate.samples_per_s, rate.elapsed_s) for rate in log.rates]
    fit = fit_throughput(at_speed_1 or seen, max_size)
    if save_path is not None:
        _save(save_path, trainer, log, axis, fit, speeds)
    if as_json:
        rescales = [asdict(rescale) for rescale in log.rescales]
        document = {"format": FORMAT, "by": f"{axis.unit}s", "fit": asdict(fit), "rescales": rescales}
        print_json({**document, "speeds": dict(speeds)})
    else:
        _show(log, axis, fit, speeds, max_size)


def _show(log: ProgressLog, axis: _Axis, fit: FittedCurve, speeds: Mapping[str, float], max_size: int) -> None:
    columns = [f"{axis.unit}s", "samples/s", f"per {axis.unit}"]
    columns += ["measured s", "step s", "communication", "data wait"]
    by_size = {
        size: [rate for rate in log.rates if axis.size(rate) == size] for size, _ in fit.curve if size <= max_size
    }
    print_table(columns, [_row(size, rate, by_size[size]) for size, rate in fit.curve if size in by_size], columns)
    error = "" if math.isnan(fit.relative_error) else f", {fit.relative_error:.1%} off the measurements"
    click.echo(f"\n{_MODELS[fit.model]}{error}; {fit.observations} measurements at {fit.sizes} sizes.")
    if axis is _WORKERS:
        click.echo("By workers, as the same nodes had different numbers of them; the daemon decides by nodes.")
    if speeds:
        click.echo(f"For its tag: {speeds_in_tag(speeds)}")
    for sentence in describe_servers(log.rates):
        click.echo(sentence)
    if pauses_s := [rescale.pause_s for rescale in log.rescales]:
        click.echo(f"{len(pauses_s)} rescales, {sum(pauses_s):.3g} s lost, {max(pauses_s):.3g} s at most.")
    _print_longest("Workers that were to be replaced took up to {:.3g} s to save and end.", log, "save_s")
    _print_longest("New ones took up to {:.3g} s to their first step.", log, "start_s")


def _save(
    path: Path, trainer: Path, log: ProgressLog, axis: _Axis, fit: FittedCurve, speeds: Mapping[str, float]
) -> None:
    """Save the curve as a trainer of replays: unseen costs are an empty tag's; boots are never in the progress."""
    if axis is not _NODES:
        raise InputError(
            "The curve cannot be saved: it is by workers, and replays lend nodes.",
            "Let every node have the same number of workers.",
        )
    changes = (
        SizeChange(rescale.time_s, rescale.nodes, rescale.cause, rescale.pause_s, rescale.start_s)
        for rescale in log.rescales
    )
    costs = believed_costs(SeenCosts().after(changes, ()), Tag())
    known = {name: seconds for name, seconds in costs.items() if seconds is not None}
    described = {"id": trainer.absolute().name, "throughput": fit.curve, **known}
    if speeds:
        by_kind = {**speeds, UNNAMED: 1.0}
        described["choices"] = [{"kinds": [kind], "speed": speed} for kind, speed in by_kind.items()]
    document = {"format": "freetrain-trainers/1", "trainers": [described]}
    with explained(f"cannot write {path}", "Name a file that can be written."):
        path.write_text(json.dumps(document, indent=2) + "\n")


def _print_longest(sentence: str, log: ProgressLog, part: str) -> None:
    seconds = [value for rescale in log.rescales if (value := getattr(rescale, part)) is not None]
    if seconds:
        click.echo(sentence.format(max(seconds)))


def _read(trainer: Path) -> ProgressLog:
    path = TrainerDirectory(trainer.absolute()).progress_path
    if path.exists() and not path.is_file():  # a pipe, say, in somebody else's directory
        raise InputError(f"{path} is not a plain file.", "Nothing but what a training writes itself is read.")
    with explained(f"cannot read {path}", "Name the directory that was given to 'freetrain run --trainer'."):
        log = read_progress(path)
    if not log.rates:
        raise InputError(
            f"{path} has no measurement yet.",
            "The first comes some seconds after the first step; in restart mode only with --steps-from.",
        )
    return log


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
    """Mean of a value over rates, weighted by how long each was measured."""
    return sum(value(rate) * rate.elapsed_s for rate in rates) / sum(rate.elapsed_s for rate in rates)


# -- servers


def describe_servers(rates: Sequence[Rate]) -> Iterator[str]:
    """Sentences on the speed of steps with servers; none where there were no servers."""
    served = [rate for rate in rates if rate.servers]
    if not served:
        return
    by_size: defaultdict[tuple[int, int], list[Rate]] = defaultdict(list)
    for rate in served:
        by_size[rate.world, rate.servers].append(rate)
    points = [Point(*size, _mean(seen, lambda rate: rate.step_s)) for size, seen in sorted(by_size.items())]
    for point in points:
        yield f"{point.workers} workers, {point.servers} servers: {show_value(point.step_s)} s per step."
    batches = [rate.samples / rate.elapsed_s * rate.step_s for rate in served]
    batch = sum(batches) / len(batches)
    if max(batches) - min(batches) > _SAME_BATCH * batch:
        yield "Steps were of different sizes, so SMD's model of workers and servers was not fitted."
    elif len(points) < LEAST_POINTS:
        missing = LEAST_POINTS - len(points)
        yield f"SMD's model of workers and servers needs {missing} more sizes of them to be fitted."
    else:
        workers_per_node = {rate.world / rate.nodes for rate in served}
        yield from _describe_model(points, fit_servers(points, batch), workers_per_node)


def _describe_model(points: Sequence[Point], model: ServerModel, workers_per_node: set[float]) -> Iterator[str]:
    """The fastest size by the model, and, where all nodes had as many workers, the tag that has the model."""
    max_workers = _BEYOND * max(point.workers for point in points)
    max_servers = _BEYOND * max(point.servers for point in points)
    workers, servers = fastest(model, max_workers, max_servers)
    off = max(abs(float(model.step_s(point.workers, point.servers)) / point.step_s - 1) for point in points)
    yield (
        f"SMD's model, {off:.0%} off at most: fastest with {workers} workers and {servers} servers "
        f"({show_value(float(model.step_s(workers, servers)))} s per step), of {max_workers} and "
        f"{max_servers} at most."
    )
    if len(workers_per_node) == 1:
        (each,) = workers_per_node
        a, b, c, d, e = model.coefficients
        by_nodes = (a * model.batch / each, b, c * each, d * each, e)
        step = "/".join(f"{value:.6f}".rstrip("0").rstrip(".") for value in by_nodes)
        yield f"For its tag: servers={min(max_servers, SERVERS.most)},step={step}"


# -- kinds of nodes


def _published(job: str, site: SiteContext) -> TrainerStatus:
    """Status of a job that the daemon of this configuration published last: its speeds, and rates at speed 1."""
    known = site.standing.trainers.get(job)
    if known is None:
        why = f"the daemon has published nothing of a training {job}"
        raise InputError(f"{why}.", "'freetrain jobs' lists the trainings that it knows.")
    if not known.speeds:
        raise InputError(
            f"The tag of {job} names no kinds of nodes, so nobody learned how fast it is on them.",
            "Say what you believe, as speed=a100:1/v100:0.4 (docs/users/tag.md).",
        )
    return known
