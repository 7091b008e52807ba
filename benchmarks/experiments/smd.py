"""SMD's experiment: utility of completions on a machine that cannot run all trainings, against simpler rules.

SMD's inner problem finds the fastest workers and servers of each training within its limits, its outer problem, a
knapsack over resources, which trainings run, where all of them together want more than there is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.experiments.comparing import Experiment, MethodFigures
from freetrain.core.grouping import grouped
from freetrain.core.throughput import Floats
from freetrain.guest.guest import Ask
from freetrain.policies.binary_programme import HIGHS, BinaryProgramme, LinearRow, solve_in_guest
from freetrain.policies.smd import ServerModel, sigmoid

ResourceAmounts = tuple[float, ...]
"""Amounts of each resource, in an order that all share."""


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Limits of a training."""

    worker: ResourceAmounts
    server: ResourceAmounts
    most: ResourceAmounts
    most_workers: int = 64
    most_servers: int = 64

    def demand(self, workers: int, servers: int) -> ResourceAmounts:
        """Resources of so many workers and servers."""
        return tuple(workers * w + servers * s for w, s in zip(self.worker, self.server, strict=True))

    def most_workers_beside(self, servers: int) -> int:
        """The most workers beside so many servers."""
        room = (
            # Sums of shares may exceed their limit in the last place.
            (most - servers * s + 1e-9) / w
            for w, s, most in zip(self.worker, self.server, self.most, strict=True)
            if w
        )
        return max(min(self.most_workers, *map(math.floor, room)), 0)

    def allow(self, workers: int, servers: int) -> bool:
        """Whether so many workers and servers are within the limits."""
        within = 1 <= workers <= self.most_workers and 1 <= servers <= self.most_servers
        return within and all(
            taken <= most + 1e-9 for taken, most in zip(self.demand(workers, servers), self.most, strict=True)
        )


def _steps_s(model: ServerModel, limits: SizeLimits) -> Floats:
    """Seconds of a step on 1, 2 … workers (rows) and servers (columns); inf where these are not allowed."""
    workers, servers = np.mgrid[1 : limits.most_workers + 1, 1 : limits.most_servers + 1]
    allowed = np.ones(workers.shape, dtype=bool)
    for w, s, most in zip(limits.worker, limits.server, limits.most, strict=True):
        allowed &= workers * w + servers * s <= most + 1e-9
    return np.where(allowed, model.step_s(workers, servers), np.inf)


def fastest(model: ServerModel, limits: SizeLimits) -> tuple[int, int] | None:
    """Workers and servers of the shortest step, by full search; None: not even one of each is allowed."""
    # Some thousand pairs: to try all is quicker than anything cleverer.
    steps_s = _steps_s(model, limits)
    workers, servers = divmod(int(steps_s.argmin()), limits.most_servers)
    return (workers + 1, servers + 1) if np.isfinite(steps_s[workers, servers]) else None


def fastest_on_grid(model: ServerModel, limits: SizeLimits, epsilon: float = 0.05) -> tuple[int, int] | None:
    """The shortest step within a factor of 1 + ``epsilon``, by few numbers of servers, 1 + epsilon apart.

    With p servers the step is a·M/w + (c/p + d)·w and what does not depend on w: the best whole w lies beside
    sqrt(a·M / (c/p + d)), within the limits. The optimum's p° lies between a p that is tried and (1 + epsilon)
    times it: with the same w that p is allowed, as it takes less, and only c·w/p grows, by epsilon at most.
    """
    a, _, c, d, _ = model.coefficients
    found: list[tuple[int, int]] = []
    for p in _grid(limits.most_servers, epsilon):
        per_worker = c / p + d
        best = math.sqrt(a * model.batch / per_worker) if per_worker > 0 else limits.most_workers
        most = limits.most_workers_beside(p)
        for w in {min(max(math.floor(best), 1), most), min(max(math.ceil(best), 1), most)}:
            if limits.allow(w, p):
                found.append((w, p))
    return min(found, key=lambda pair: (float(model.step_s(*pair)), pair), default=None)


def _grid(most: int, epsilon: float) -> Iterator[int]:
    """Integers from 1, each the largest within 1 + epsilon times the one before, or the next."""
    number = 1
    while number <= most:
        yield number
        number = max(number + 1, math.floor(number * (1 + epsilon)))


def on_the_way(model: ServerModel, limits: SizeLimits) -> Sequence[tuple[int, int]]:
    """Smaller sizes, too: with each number of workers the best number of servers, the fastest of all last.

    ``sizes = "menu"`` chooses from these, freetrain's extension.
    """
    steps_s = _steps_s(model, limits)
    best = [(row, int(of_row.argmin())) for row, of_row in enumerate(steps_s) if np.isfinite(of_row).any()]
    best.sort(key=lambda pair: -steps_s[pair])
    return [(workers + 1, servers + 1) for workers, servers in best]


@dataclass(frozen=True, slots=True)
class RunOption:
    """A way to run a training, with its demand for each resource; of several ways one is chosen at most."""

    job: int
    value: float
    demand: ResourceAmounts


@dataclass(frozen=True, slots=True)
class OuterSolution:
    """Positions of the chosen options, ascending, and why they are not the proven optimum; empty: they are."""

    options: tuple[int, ...]
    value: float
    by: str
    why: str = ""


def choose(
    options: Sequence[RunOption], capacity: ResourceAmounts, time_s: float, highs: Ask = HIGHS
) -> OuterSolution:
    """Options of largest value that fit together, one for each training at most.

    1. HiGHS finds the optimum, or the best in its time.
    2. Where that is nothing usable, its linear relaxation is rounded: at most as many options are split as there
       are resources and trainings with several options; they are dropped, and what is free is filled up.
    3. Without HiGHS, it is filled up from nothing: most value per share of what there is first.
    """
    possible = [number for number, option in enumerate(options) if option.value > 0]
    rows = _rows(options, possible, capacity)
    values = [options[number].value for number in possible]
    by, least = "HiGHS", 0.5
    found, why = solve_in_guest(BinaryProgramme(values, rows), time_s, highs)
    if found is None:
        by, least = "rounding", 1 - 1e-6
        found, _ = solve_in_guest(BinaryProgramme(values, rows, integral=False), time_s, highs)
    if found is None:
        by, found = "filling up", (0.0,) * len(possible)
    chosen = [number for number, taken in zip(possible, found, strict=True) if taken > least]
    # An answer that is not proven may have left room.
    filled = _filled(options, chosen, capacity) if why else tuple(chosen)
    return OuterSolution(filled, sum(options[number].value for number in filled), by, why)


def _rows(options: Sequence[RunOption], possible: Sequence[int], capacity: ResourceAmounts) -> list[LinearRow]:
    rows = [
        LinearRow({place: options[number].demand[resource] for place, number in enumerate(possible)}, most)
        for resource, most in enumerate(capacity)
    ]
    of_job = grouped((options[number].job, place) for place, number in enumerate(possible))
    return rows + [LinearRow(dict.fromkeys(places, 1.0), 1.0) for places in of_job.values() if len(places) > 1]


def _filled(options: Sequence[RunOption], chosen: Sequence[int], capacity: ResourceAmounts) -> tuple[int, ...]:
    """The chosen ones, and of the others those that still fit, most value per share of what there is first."""
    filled, jobs = list(chosen), {options[number].job for number in chosen}
    left = [
        most - sum(options[number].demand[resource] for number in chosen) for resource, most in enumerate(capacity)
    ]

    def density(number: int) -> float:
        option = options[number]
        share = sum(taken / most for taken, most in zip(option.demand, capacity, strict=True) if most > 0)
        return option.value / share if share > 0 else math.inf

    for number in sorted(range(len(options)), key=lambda number: (-density(number), number)):
        option = options[number]
        fits = all(taken <= free + 1e-9 for taken, free in zip(option.demand, left, strict=True))
        if option.value > 0 and option.job not in jobs and fits:
            filled.append(number)
            jobs.add(option.job)
            left = [free - taken for free, taken in zip(left, option.demand, strict=True)]
    return tuple(sorted(filled))


_JOBS = 50
_CAPACITY = (64.0, 400.0, 2400.0)
_TIME_S = 10.0
_HOUR_S = 3600.0

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _TimedJob:
    """A training; its worth falls with this steepness, to a half at the deadline."""

    model: ServerModel
    limits: SizeLimits
    steps: float
    worth: float
    steepness: float
    deadline_h: float

    def hours(self, pair: Pair) -> float:
        return self.steps * float(self.model.step_s(*pair)) / _HOUR_S

    def utility(self, pair: Pair) -> float:
        return sigmoid(self.hours(pair), self.worth, self.steepness, self.deadline_h)


PairOf = Callable[[_TimedJob], Pair | None]
"""A training → workers and servers for it; None: it cannot be run."""


def utilities(seed: int, times: int, only: Collection[str] = ()) -> Mapping[str, float]:
    """Utility of 50 trainings by the method that chose their sizes, on a machine of so many times the size.

    ``only``: methods that are tried; empty: all.
    """
    jobs = _jobs(random.Random(seed))
    capacity = tuple(times * most for most in _CAPACITY)
    ways: dict[str, Callable[[Sequence[_TimedJob], ResourceAmounts], float]] = {
        "SMD": partial(_one_size_each, lambda job: fastest(job.model, job.limits)),
        "SMD, grid": partial(_one_size_each, lambda job: fastest_on_grid(job.model, job.limits)),
        "menu": _menu,
        "ESW": partial(_one_size_each, _fastest_equal),
        "SMD, by limits": partial(_one_size_each, lambda job: fastest(job.model, job.limits), by_limits=True),
        "ESW, by limits": partial(_one_size_each, _fastest_equal, by_limits=True),
        "Optimus": _optimus,
        "elastic": _elastic,
    }
    return {name: way(jobs, capacity) for name, way in ways.items() if not only or name in only}


_COMPARED = (
    ("SMD", "ESW"),
    ("SMD", "Optimus"),
    ("SMD", "elastic"),
    ("SMD, grid", "SMD"),
    ("SMD, by limits", "ESW, by limits"),
    ("menu", "ESW"),
    ("menu", "elastic"),
)


def _run(seed: int) -> Iterator[MethodFigures]:
    """50 trainings with servers and workers, on 64 GPUs, 400 CPUs and 2,400 GB, and on twice that."""
    for times in (1, 2):
        yield MethodFigures(f"x{times}", "utility", utilities(seed, times))


EXPERIMENT = Experiment(
    f"SMD: utility of the completions of {_JOBS} trainings",
    _run,
    _COMPARED,
    (
        "SMD: the fastest size of each training, then a knapsack. grid: that size on a grid, epsilon 0.05.",
        "menu (smd, sizes = menu) is freetrain's: the knapsack may take smaller sizes.",
        "ESW: as many servers as workers. elastic: whatever adds most utility per share of the machine, size "
        "after size, with no solver.",
        "by limits: the knapsack counts all that a training may have instead of what it takes.",
        "Optimus: one more worker or server wherever it saves most time; it does not look at this utility.",
        "SMD's paper reports more utility than Optimus and ESW; we know of no public figure.",
    ),
)


def _jobs(draw: random.Random) -> list[_TimedJob]:
    jobs = []
    for _ in range(_JOBS):
        ranges = ((0.002, 0.02), (0.01, 0.05), (0.02, 0.2), (0.0005, 0.002), (0.0005, 0.002))
        a, b, c, d, e = (draw.uniform(*bounds) for bounds in ranges)
        model = ServerModel((a, b, c, d, e), draw.choice((64, 128, 256, 512)))
        worker = (float(draw.randint(1, 2)), float(draw.randint(1, 5)), float(draw.randint(4, 20)))
        server = (0.0, float(draw.randint(1, 5)), float(draw.randint(4, 20)))
        most = (float(draw.randint(4, 16)), draw.uniform(20, 60), draw.uniform(100, 300))
        limits = SizeLimits(worker, server, most, 16, 16)
        steps = draw.uniform(1, 10) * _HOUR_S / float(model.step_s(4, 4))
        steepness = draw.choices((0.0, draw.uniform(0.01, 1), draw.uniform(4, 6)), (10, 55, 35))[0]
        jobs.append(_TimedJob(model, limits, steps, draw.uniform(1, 100), steepness, draw.uniform(1, 15)))
    return jobs


def _knapsack(
    sizes: Iterable[tuple[int, _TimedJob, Pair]], capacity: ResourceAmounts, by_limits: bool = False
) -> float:
    """The best choice; by limits each takes all that it may have: its time is a matter of its own size alone."""
    options = [
        RunOption(row, job.utility(pair), job.limits.most if by_limits else job.limits.demand(*pair))
        for row, job, pair in sizes
    ]
    return choose(options, capacity, _TIME_S).value


def _one_size_each(
    pair_of: PairOf, jobs: Sequence[_TimedJob], capacity: ResourceAmounts, by_limits: bool = False
) -> float:
    sizes = [(row, job, pair) for row, job in enumerate(jobs) if (pair := pair_of(job)) is not None]
    return _knapsack(sizes, capacity, by_limits)


def _menu(jobs: Sequence[_TimedJob], capacity: ResourceAmounts) -> float:
    """Every size on the way to the fastest, and those with as many servers as workers."""
    return _knapsack([(row, job, pair) for row, job in enumerate(jobs) for pair in _sizes(job)], capacity)


def _sizes(job: _TimedJob) -> list[Pair]:
    return list(dict.fromkeys((*on_the_way(job.model, job.limits), *_equal_pairs(job))))


def _elastic(jobs: Sequence[_TimedJob], capacity: ResourceAmounts) -> float:
    """Sizes grown from nothing: the step that adds most utility per share of the machine, while one adds some."""
    sizes = [_sizes(job) for job in jobs]
    worth = [np.array([job.utility(pair) for pair in pairs]) for job, pairs in zip(jobs, sizes, strict=True)]
    takes = [
        np.array([job.limits.demand(*pair) for pair in pairs]).reshape(-1, len(capacity))
        for job, pairs in zip(jobs, sizes, strict=True)
    ]
    has, left = [(0.0, np.zeros(len(capacity)))] * len(jobs), np.array(capacity)
    while True:
        best = (0.0, 0, 0)
        for row in range(len(jobs)):
            gain, more = worth[row] - has[row][0], takes[row] - has[row][1]
            # A step that takes nothing of the machine must not divide by 0.
            share = np.maximum((more / capacity).sum(axis=1), 1e-12)
            rates = np.where((more <= left + 1e-9).all(axis=1) & (gain > 1e-12), gain / share, 0.0)
            if len(rates) and rates.max() > best[0]:
                best = (float(rates.max()), row, int(rates.argmax()))
        rate, row, number = best
        if rate <= 0:
            return sum(value for value, _ in has)
        left = left - (takes[row][number] - has[row][1])
        has[row] = (float(worth[row][number]), takes[row][number])


def _equal_pairs(job: _TimedJob) -> list[Pair]:
    return [(count, count) for count in range(1, 17) if job.limits.allow(count, count)]


def _fastest_equal(job: _TimedJob) -> Pair | None:
    return min(_equal_pairs(job), key=lambda pair: float(job.model.step_s(*pair)), default=None)


def _optimus(jobs: Sequence[_TimedJob], capacity: ResourceAmounts) -> float:
    """A worker and a server for each training, then one more where it saves most time per share of the machine."""
    left, sizes = np.array(capacity), dict[int, Pair]()
    for row, job in enumerate(jobs):
        alone = np.array(job.limits.demand(1, 1))
        if job.limits.allow(1, 1) and (alone <= left + 1e-9).all():
            sizes[row], left = (1, 1), left - alone
    while steps := [step for row in sizes for step in _steps(row, jobs[row], sizes[row], left, capacity)]:
        _, row, after, more = max(steps, key=lambda step: step[:3])
        sizes[row], left = after, left - more
    return sum(jobs[row].utility(pair) for row, pair in sizes.items())


def _steps(
    row: int, job: _TimedJob, size: Pair, left: Floats, capacity: ResourceAmounts
) -> Iterator[tuple[float, int, Pair, Floats]]:
    """(hours saved per share of the scarcest resource, row, size, what it takes): one more worker or server."""
    for after in ((size[0] + 1, size[1]), (size[0], size[1] + 1)):
        more = np.subtract(job.limits.demand(*after), job.limits.demand(*size))
        saved = job.hours(size) - job.hours(after)
        if saved > 0 and job.limits.allow(*after) and (more <= left + 1e-9).all():
            yield saved / float((more / capacity).max()), row, after, more
