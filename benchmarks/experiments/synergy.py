"""Synergy's experiment: how long trainings take on shared servers, by who gets the CPUs and the memory.

How fast models are with more or less of these is as Synergy's authors published it for their servers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.experiments.comparing import Experiment, MethodFigures
from freetrain.policies.synergy import (
    Profile,
    SharedServer,
    SharesOfTasks,
    SharingBoard,
    SharingJob,
    place_one,
    rate_of,
    tune,
)

_CPUS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)
_MEMORY_GB = (20.83, 62.5, 125.0, 187.5)
_TOO_LITTLE = (0.1,) * len(_CPUS)
"""GB of memory where the data set is not cached."""
_SAME = Profile(_CPUS, _MEMORY_GB, ((1.0,) * len(_CPUS),) * len(_MEMORY_GB))
KINDS = {
    "image": ("resnet18", "resnet50", "mobilenet", "alexnet", "shufflenet"),
    "language": ("gnmt", "transformer", "lstm", "bert"),
    "speech": ("m5", "deepspeech"),
}
_ROUND_H = 300 / 3600
_SERVERS = tuple(SharedServer(f"s{number}", 8, 24.0, 500.0) for number in range(16))
_GPUS = sum(server.gpus for server in _SERVERS)
_FIRST, _LOOKED_AT, _AFTER = 500, 200, 200
"""Trainings that arrive before those that are looked at, these, and those that arrive after them."""
_CELLS = (
    ((20, 70, 10), False, "FIFO", 7.0),
    ((20, 70, 10), False, "SRTF", 9.0),
    ((50, 0, 50), False, "FIFO", 11.0),
    ((20, 70, 10), True, "FIFO", 4.5),
)
"""Shares of image, language and speech models, whether some have several GPUs, order, and arrivals per hour."""
Sharing = Callable[[Sequence[SharingJob]], Mapping[str, float]]
"""Training → its rate, of those in this order that run; the others wait."""


def _by_cpus(*rates: float) -> Profile:
    """Profile of a training that CPUs make faster: the last rate from there on, also with the share of memory."""
    row = (*rates, *(rates[-1],) * (len(_CPUS) - len(rates)))
    return Profile(_CPUS, _MEMORY_GB, (_TOO_LITTLE, row, row, row))


def _cached(best: float) -> Profile:
    """Profile of a training that is faster still with twelve CPUs if twice the share of memory holds its data."""
    few = (0.3, 0.66, 1.0, 1.25, 1.53, 1.75, 2.0)
    low, high = (*few, 2.0, 2.0), (*few, best, best)
    return Profile(_CPUS, _MEMORY_GB, (_TOO_LITTLE, low, high, high))


def _m5() -> Profile:
    """Profile of a training that memory makes faster, if there are six CPUs."""
    few = (0.3, 0.66, 1.0, 1.2, 1.4)
    rows = tuple((*few, *(rate,) * 4) for rate in (1.5, 2.0, 2.5))
    return Profile(_CPUS, _MEMORY_GB, (_TOO_LITTLE, *rows))


PROFILES = {
    "resnet18": _by_cpus(0.37, 0.72, 1.0, 1.3, 1.53, 1.75, 2.4),
    "resnet50": _by_cpus(0.4, 0.74, 1.0, 1.15),
    "mobilenet": _by_cpus(0.37, 0.72, 1.0, 1.3, 1.49, 1.55),
    "alexnet": _cached(2.94),
    "shufflenet": _cached(2.89),
    "m5": _m5(),
    "deepspeech": _by_cpus(0.3, 0.66, 1.0),
    "gnmt": _SAME,
    "transformer": _SAME,
    "lstm": _SAME,
    "bert": _SAME,
}


def place_greedily(servers: Sequence[SharedServer], jobs: Sequence[SharingJob]) -> SharesOfTasks:
    """The baseline of TUNE: each gets its whole demand or waits, and GPUs idle for want of CPUs or memory."""
    board = SharingBoard(servers)
    free = sum(part.gpus for part in board.free.values())
    for job in jobs:
        if free and place_one(board, job, within_share=False):
            free -= job.gpus
    return board.parts


@dataclass(slots=True)
class SimulatedRun:
    """A training that has arrived, and the hours that it still takes at the proportional rate."""

    job: SharingJob
    arrived_h: float
    left_h: float
    ended_h: float | None = None


def _tuned(jobs: Sequence[SharingJob]) -> Mapping[str, float]:
    admitted = list(_admitted(jobs))
    return _rates(admitted, tune(_SERVERS, admitted))


def _shares_and_rest(jobs: Sequence[SharingJob]) -> Mapping[str, float]:
    """Rates where each training gets its share first, then, in this order, all that it can use of the rest."""
    admitted = list(_admitted(jobs))
    board = SharingBoard(_SERVERS)
    for job in sorted(admitted, key=lambda job: -job.gpus):
        place_one(board, job, within_share=True)
    for job in admitted:
        parts = board.parts.get(job.id, {})
        cpus, memory_gb = job.profile.demand
        for name, part in parts.items():
            more = cpus * part.gpus - part.cpus, memory_gb * part.gpus - part.memory_gb
            if len(parts) == 1 and board.fits(name, 0, *more):
                board.resize(job.id, name, cpus, memory_gb)
    return _rates(admitted, board.parts)


WAYS: dict[str, Sharing] = {
    "TUNE": _tuned,
    "shares": lambda jobs: {job.id: 1.0 for job in _admitted(jobs)},
    "shares, then the rest": _shares_and_rest,
    "all or nothing": lambda jobs: _rates(jobs, place_greedily(_SERVERS, jobs)),
}
"""Way to share servers → the rates of trainings by it."""


def _run(seed: int) -> Iterator[MethodFigures]:
    """Arrivals at random, five-minute rounds; of each way the mean hours from arrival to completion."""
    for mix, several_gpus, order, per_hour in _CELLS:
        gpus = "1-8 GPUs" if several_gpus else "1 GPU"
        setting = f"{'/'.join(map(str, mix))}, {gpus}, {order}, {per_hour:g} an hour"
        hours = {
            way: mean_hours(arrivals(seed, mix, several_gpus, per_hour), order, sharing, slice(_FIRST, -_AFTER))
            for way, sharing in WAYS.items()
        }
        yield MethodFigures(setting, "hours", hours)


EXPERIMENT = Experiment(
    f"Synergy: mean hours from arrival to completion of {_LOOKED_AT} trainings",
    _run,
    tuple(("TUNE", way) for way in WAYS if way != "TUNE"),
    (
        "16 servers of 8 GPUs, 24 CPUs and 500 GB. Rates are those that Synergy's authors measured of "
        "trainings on one GPU; those on several are taken to be as fast for each of theirs.",
        f"{_FIRST} trainings arrive before those that are looked at.",
        "shares: CPUs and memory in proportion to GPUs. shares, then the rest: what shares leave goes to "
        "those that can use it. all or nothing: all that a training can use; GPUs without CPUs idle.",
        "Synergy's paper reports means up to 3.4 times shorter than with shares. Near saturation of the "
        "shares alone that factor grows with the length of an experiment.",
    ),
    less_is_better=True,
)


def _admitted(jobs: Sequence[SharingJob]) -> Iterator[SharingJob]:
    """Trainings that get GPUs, in order, while GPUs last; those that want more than are left are passed over."""
    left = _GPUS
    for job in jobs:
        if job.gpus <= left:
            left -= job.gpus
            yield job


def _rates(jobs: Sequence[SharingJob], parts: SharesOfTasks) -> Mapping[str, float]:
    return {job.id: rate_of(job, parts[job.id]) for job in jobs if job.id in parts}


def arrivals(
    seed: int, mix: Sequence[int], several_gpus: bool, per_hour: float, count: int = _FIRST + _LOOKED_AT + _AFTER
) -> list[SimulatedRun]:
    """Trainings as they come; the same arguments give the same ones."""
    draw = random.Random(f"{seed}/{mix}/{several_gpus}/{per_hour}")
    now_h, runs = 0.0, []
    for number in range(count):
        now_h += draw.expovariate(per_hour)
        (kind,) = draw.choices(tuple(KINDS.values()), mix)
        profile = PROFILES[draw.choice(kind)]
        # Lengths as in Synergy's simulator: 10^U(1.5, 3) minutes for 80 % of the trainings, 10^U(3, 4) for the
        # others.
        exponent = draw.uniform(1.5, 3) if draw.random() < 0.8 else draw.uniform(3, 4)
        gpus = draw.choices((1, 2, 4, 8), (70, 10, 15, 5))[0] if several_gpus else 1
        runs.append(SimulatedRun(SharingJob(f"j{number:04}", gpus, profile), now_h, 10**exponent / 60))
    return runs


def mean_hours(runs: Sequence[SimulatedRun], order: str, sharing: Sharing, which: slice) -> float:
    """Mean time from arrival to completion of some of the runs, in the order FIFO or SRTF; ends with the last one.

    It is decided again in each round in which a training came or ended.
    """
    looked_at = runs[which]
    here: list[SimulatedRun] = []
    rates: Mapping[str, float] = {}
    arrived, now_h = 0, 0.0
    while any(run.ended_h is None for run in looked_at):
        came = arrived
        while arrived < len(runs) and runs[arrived].arrived_h <= now_h:
            here.append(runs[arrived])
            arrived += 1
        still = [run for run in here if run.ended_h is None]
        if arrived > came or len(still) < len(here):
            here = sorted(still, key=lambda run: run.left_h if order == "SRTF" else run.arrived_h)
            rates = sharing([run.job for run in here])
        for run in here:
            rate = rates.get(run.job.id, 0.0)
            if rate * _ROUND_H >= run.left_h > 0:
                run.ended_h = now_h + run.left_h / rate
            run.left_h -= rate * _ROUND_H
        now_h += _ROUND_H
    return sum((run.ended_h or 0.0) - run.arrived_h for run in looked_at) / len(looked_at)
