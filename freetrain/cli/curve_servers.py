"""What ``freetrain curve`` tells of servers: SMD's model of the measured steps, and what it calls fastest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from freetrain.cli.output import show_value
from freetrain.core.bounds import SERVERS
from freetrain.elastic.on_disk.progress_line import Rate
from freetrain.policies.smd.inner import LEAST_POINTS, Point, ServerModel, SizeLimits, fastest, fit_servers

_BEYOND = 2
"""So many times the most workers and servers seen: farther out a fit says little."""

_SAME_BATCH = 0.05
"""Relative. The model is of steps of one size; the last one of an epoch is smaller."""


def describe_servers(rates: Sequence[Rate]) -> Iterator[str]:
    """Sentences on how fast steps were with servers; none where there were none."""
    served = [rate for rate in rates if rate.servers]
    if not served:
        return
    by_size: defaultdict[tuple[int, int], list[Rate]] = defaultdict(list)
    for rate in served:
        by_size[rate.world, rate.servers].append(rate)
    points = [Point(*size, _mean_step_s(seen)) for size, seen in sorted(by_size.items())]
    for one in points:
        yield f"{one.workers} workers, {one.servers} servers: {show_value(one.step_s)} s per step."
    batches = [rate.samples / rate.elapsed_s * rate.step_s for rate in served]
    batch = sum(batches) / len(batches)
    if max(batches) - min(batches) > _SAME_BATCH * batch:
        yield "Steps were of different sizes, so SMD's model of workers and servers was not fitted."
    elif len(points) < LEAST_POINTS:
        missing = LEAST_POINTS - len(points)
        yield f"SMD's model of workers and servers needs {missing} more sizes of them to be fitted."
    else:
        model = fit_servers(points, batch)
        yield _fastest(points, model)
        each = {rate.world / rate.nodes for rate in served}
        if len(each) == 1:
            yield _for_the_tag(model, each.pop(), max(one.servers for one in points))


def _for_the_tag(model: ServerModel, workers_each: float, seen_servers: int) -> str:
    """The model by nodes instead of workers, as a submission's tag has it."""
    a, b, c, d, e = model.coefficients
    by_nodes = (a * model.batch / workers_each, b, c * workers_each, d * workers_each, e)
    most = min(_BEYOND * seen_servers, SERVERS.most)
    step = "/".join(f"{value:.6f}".rstrip("0").rstrip(".") for value in by_nodes)
    return f"For its tag: servers={most},step={step}"


def _fastest(points: Sequence[Point], model: ServerModel) -> str:
    most_workers = _BEYOND * max(one.workers for one in points)
    most_servers = _BEYOND * max(one.servers for one in points)
    workers, servers = fastest(model, SizeLimits((), (), (), most_workers, most_servers)) or (1, 1)
    off = max(abs(float(model.step_s(one.workers, one.servers)) / one.step_s - 1) for one in points)
    return (
        f"SMD's model, {off:.0%} off at most: fastest with {workers} workers and {servers} servers "
        f"({show_value(float(model.step_s(workers, servers)))} s per step), of {most_workers} and "
        f"{most_servers} at most."
    )


def _mean_step_s(seen: Sequence[Rate]) -> float:
    return sum(rate.step_s * rate.elapsed_s for rate in seen) / sum(rate.elapsed_s for rate in seen)
