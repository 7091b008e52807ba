"""SMD's experiment: utility of completions on a machine that cannot run all trainings, against simpler rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from freetrain.policies.experiment import Table
from freetrain.policies.smd.inner import Amounts, Limits, fastest, fastest_on_grid, on_the_way
from freetrain.policies.smd.outer import Option, choose, sigmoid
from freetrain.policies.smd.speed import ServerModel

_JOBS = 50
_CAPACITY = (64.0, 400.0, 2400.0)
_TIME_S = 10.0
_HOUR_S = 3600.0
_SLACK = 0.05

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Job:
    """A training.

    Attributes:
        model: how fast it is.
        limits: what it may have.
        steps: that it has to do.
        worth: of its completion.
        steepness: how suddenly that falls.
        deadline_h: where half of it is left.
    """

    model: ServerModel
    limits: Limits
    steps: float
    worth: float
    steepness: float
    deadline_h: float

    def hours(self, pair: Pair) -> float:
        """Until completion on so many workers and servers."""
        return self.steps * float(self.model.step_s(*pair)) / _HOUR_S

    def utility(self, pair: Pair) -> float:
        """What that is worth."""
        return sigmoid(self.hours(pair), self.worth, self.steepness, self.deadline_h)


PairOf = Callable[[_Job, Amounts], Pair | None]
"""A training, and the machine → workers and servers for it; None: it cannot be run."""


def utilities(seed: int, times: int, only: Collection[str] = ()) -> Mapping[str, float]:
    """Utility of 50 trainings by who chose their sizes, on a machine that is so many times as large.

    Args:
        seed: of the trainings.
        times: how many times as large.
        only: who; empty: all.
    """
    jobs = _jobs(random.Random(seed))
    capacity = tuple(times * most for most in _CAPACITY)
    ways: dict[str, Callable[[Sequence[_Job], Amounts], float]] = {
        "SMD": partial(_one_size_each, lambda job, _: fastest(job.model, job.limits)),
        "SMD, grid": partial(_one_size_each, lambda job, _: fastest_on_grid(job.model, job.limits)),
        "SMD, slack": partial(_one_size_each, lambda job, most: _thriftiest(job, _all_pairs(job), most)),
        "smd-menu": _smd_menu,
        "ESW": partial(_one_size_each, lambda job, _: _fastest_equal(job)),
        "ESW, slack": partial(_one_size_each, lambda job, most: _thriftiest(job, _equal_pairs(job), most)),
        "SMD, by limits": partial(_by_limits, lambda job: fastest(job.model, job.limits)),
        "ESW, by limits": partial(_by_limits, _fastest_equal),
        "Optimus": _optimus,
    }
    return {name: way(jobs, capacity) for name, way in ways.items() if not only or name in only}


def run(seeds: int = 6) -> Table:
    """50 trainings with servers and workers, on 64 GPUs, 400 CPUs and 2,400 GB, and on twice that."""
    rows: list[tuple[str | int | float, ...]] = []
    for times in (1, 2):
        found = [utilities(seed, times) for seed in range(seeds)]
        for name in found[0]:
            mean, of_smd = (sum(one[which] for one in found) / seeds for which in (name, "SMD"))
            least = min(one["SMD"] / one[name] for one in found)
            rows.append((f"x{times}", name, round(mean, 1), round(of_smd / mean, 3), round(least, 3)))
    return Table(
        f"Utility of completions: {_JOBS} trainings, means of {seeds} seeds",
        ("machine", "chosen by", "utility", "SMD / this", "least of all seeds"),
        tuple(rows),
        (
            "SMD: the fastest size of each training, then a knapsack. grid: that size by ratios, epsilon 0.05.",
            f"slack: of all sizes within {100 * _SLACK:.0f} % of the fastest the one that takes least.",
            "smd-menu is freetrain's: the knapsack may take smaller sizes. ESW: as many servers as workers.",
            "by limits: the knapsack counts all that a training may have instead of what it takes.",
            "Optimus: one more worker or server wherever it saves most time; it does not look at this utility.",
        ),
    )


def _jobs(draw: random.Random) -> list[_Job]:
    jobs = []
    for _ in range(_JOBS):
        ranges = ((0.002, 0.02), (0.01, 0.05), (0.02, 0.2), (0.0005, 0.002), (0.0005, 0.002))
        a, b, c, d, e = (draw.uniform(*each) for each in ranges)
        model = ServerModel((a, b, c, d, e), draw.choice((64, 128, 256, 512)))
        worker = (float(draw.randint(1, 2)), float(draw.randint(1, 5)), float(draw.randint(4, 20)))
        server = (0.0, float(draw.randint(1, 5)), float(draw.randint(4, 20)))
        most = (float(draw.randint(4, 16)), draw.uniform(20, 60), draw.uniform(100, 300))
        limits = Limits(worker, server, most, 16, 16)
        steps = draw.uniform(1, 10) * _HOUR_S / float(model.step_s(4, 4))
        steepness = draw.choices((0.0, draw.uniform(0.01, 1), draw.uniform(4, 6)), (10, 55, 35))[0]
        jobs.append(_Job(model, limits, steps, draw.uniform(1, 100), steepness, draw.uniform(1, 15)))
    return jobs


def _knapsack(jobs: Sequence[_Job], pairs: Sequence[tuple[int, Pair]], capacity: Amounts) -> float:
    options = [Option(row, jobs[row].utility(pair), jobs[row].limits.demand(*pair)) for row, pair in pairs]
    return choose(options, capacity, _TIME_S).value


def _one_size_each(pair_of: PairOf, jobs: Sequence[_Job], capacity: Amounts) -> float:
    """The best choice of trainings, each of which has one size, or none that would do."""
    sizes = ((row, pair_of(job, capacity)) for row, job in enumerate(jobs))
    return _knapsack(jobs, [(row, pair) for row, pair in sizes if pair is not None], capacity)


def _by_limits(pair_of: Callable[[_Job], Pair | None], jobs: Sequence[_Job], capacity: Amounts) -> float:
    """Each training takes all that it may have: then how long it takes is a matter of its own size alone."""
    pairs = ((row, pair_of(job)) for row, job in enumerate(jobs))
    options = [
        Option(row, jobs[row].utility(pair), jobs[row].limits.most) for row, pair in pairs if pair is not None
    ]
    return choose(options, capacity, _TIME_S).value


def _thriftiest(job: _Job, pairs: Sequence[Pair], capacity: Amounts) -> Pair | None:
    """Of the pairs that are nearly as fast as the fastest, the one that takes least of the machine."""
    step_s = {pair: float(job.model.step_s(*pair)) for pair in pairs}
    fast = [pair for pair in pairs if step_s[pair] <= (1 + _SLACK) * min(step_s.values())]

    def share(pair: Pair) -> float:
        return sum(taken / most for taken, most in zip(job.limits.demand(*pair), capacity, strict=True))

    return min(fast, key=lambda pair: (share(pair), step_s[pair]), default=None)


def _all_pairs(job: _Job) -> list[Pair]:
    sizes = range(1, job.limits.most_workers + 1), range(1, job.limits.most_servers + 1)
    return [(workers, servers) for workers, servers in product(*sizes) if job.limits.allow(workers, servers)]


def _smd_menu(jobs: Sequence[_Job], capacity: Amounts) -> float:
    """Every size on the way to the fastest, and those with as many servers as workers."""
    pairs = [
        (row, pair)
        for row, job in enumerate(jobs)
        for pair in dict.fromkeys((*on_the_way(job.model, job.limits), *_equal_pairs(job)))
    ]
    return _knapsack(jobs, pairs, capacity)


def _equal_pairs(job: _Job) -> list[Pair]:
    return [(count, count) for count in range(1, 17) if job.limits.allow(count, count)]


def _fastest_equal(job: _Job) -> Pair | None:
    return min(_equal_pairs(job), key=lambda pair: float(job.model.step_s(*pair)), default=None)


def _optimus(jobs: Sequence[_Job], capacity: Amounts) -> float:
    """One worker and one server for each in turn, then one more wherever it saves most time per share it takes."""
    left = list(capacity)
    sizes: dict[int, Pair] = {}
    for row, job in enumerate(jobs):
        if job.limits.allow(1, 1) and _take(left, job.limits.demand(1, 1)):
            sizes[row] = (1, 1)
    while True:
        gains = [gain for row, size in sizes.items() for gain in _gains(row, jobs[row], size, left, capacity)]
        if not gains:
            return sum(jobs[row].utility(pair) for row, pair in sizes.items())
        _, row, size = max(gains)
        _take(left, _more(jobs[row], sizes[row], size))
        sizes[row] = size


def _gains(
    row: int, job: _Job, size: Pair, left: Sequence[float], capacity: Amounts
) -> list[tuple[float, int, Pair]]:
    """(hours saved per share of the scarcest resource, row, size) for one more worker and for one more server."""
    found = []
    for after in ((size[0] + 1, size[1]), (size[0], size[1] + 1)):
        more = _more(job, size, after)
        saved = job.hours(size) - job.hours(after)
        fits = all(taken <= free + 1e-9 for taken, free in zip(more, left, strict=True))
        if saved > 0 and job.limits.allow(*after) and fits:
            dominant = max(taken / most for taken, most in zip(more, capacity, strict=True))
            found.append((saved / dominant, row, after))
    return found


def _more(job: _Job, size: Pair, after: Pair) -> Amounts:
    now, then = job.limits.demand(*size), job.limits.demand(*after)
    return tuple(b - a for a, b in zip(now, then, strict=True))


def _take(left: list[float], taken: Amounts) -> bool:
    """Take it, if it is there."""
    if any(each > free + 1e-9 for each, free in zip(taken, left, strict=True)):
        return False
    left[:] = [free - each for free, each in zip(left, taken, strict=True)]
    return True
