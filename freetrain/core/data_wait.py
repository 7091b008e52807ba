"""Data waits: how long a training waits for data by CPUs and memory, and the shared nodes that may give more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import exp, log

from freetrain.core.amounts import Amount

WAITS = 0.05
"""Part of its steps that a training waits for data below which it gains next to nothing by more CPUs."""

# A speed is never 0: powers are fitted to ratios of speeds.
_MOST_WAITING = 0.99
_MOST_POINTS = 16
_APART = 1.25
"""Least ratio of CPUs of two points; nearer to each other they do not tell what CPUs bring."""
_FLAT = 0.14
"""Exponent below which twice as many CPUs bring less than a tenth, as Synergy's profiling takes it: nothing."""


@dataclass(frozen=True, slots=True)
class DataWait:
    """A measurement.

    Attributes:
        share: part of a step that it waited for data.
        cpus: CPUs that its first process had of its node; 0: not known.
    """

    share: float
    cpus: int = 0
    memory_mb: int = 0

    def is_refuted_by(self, later: DataWait) -> bool:
        """Whether a later one was made with the same, with more and waited longer, or with less and did not."""
        if not later.cpus or (self.cpus, self.memory_mb) == (later.cpus, later.memory_mb):
            return True
        if self.cpus <= later.cpus and self.memory_mb <= later.memory_mb:
            return later.share > self.share + WAITS
        if self.cpus >= later.cpus and self.memory_mb >= later.memory_mb:
            return later.share < self.share - WAITS
        return False


@dataclass(frozen=True, slots=True)
class WaitProfile:
    """Profile of a training: the points that were seen as it ran, with whatever its nodes gave it.

    Attributes:
        points: of those of equal CPUs and memory the last one; the last one seen is the last.
    """

    points: tuple[DataWait, ...] = ()

    def after(self, before: WaitProfile | None) -> WaitProfile:
        """The profile after an earlier one: what is refuted since is forgotten."""
        known = before.points if before is not None else ()
        for point in self.points:
            known = (*(seen for seen in known if not seen.is_refuted_by(point)), point)
        return WaitProfile(known[-_MOST_POINTS:])

    @property
    def knows_cpus(self) -> bool:
        """Whether it is known with how many CPUs it waited."""
        return bool(self.points) and self.points[-1].cpus > 0

    def has_had(self, memory_mb: int) -> bool:
        """Whether it has been measured with so much memory."""
        return any(point.memory_mb >= memory_mb for point in self.points)

    def share_with(self, cpus: float, memory_mb: int = 0) -> float:
        """Share of a step that it would wait with this many CPUs and this memory; 0 memory: whatever it had.

        What is left of a step, its speed, never falls with more CPUs. Between two points, and beyond the last, it
        goes with a power of the CPUs: that of the points. Below the first, and beyond the only one, it is in
        proportion to the CPUs, as reading is where it is waited for. Of one that did not wait nothing is known
        but that more CPUs do not help.
        """
        if not self.knows_cpus:
            return self.points[-1].share if self.points else 0.0
        speeds = self._speeds(memory_mb)
        (first, slowest), (last, fastest) = speeds[0], speeds[-1]
        if cpus <= first:
            return 1 - slowest * (cpus / first if slowest < 1 - WAITS else 1)
        if cpus > last:
            return 1 - min(fastest * _power(cpus / last, _exponent_beyond(speeds)), 1.0)
        return next(
            1 - low * _power(cpus / fewer, _exponent(low, high, fewer, more))
            for (fewer, low), (more, high) in pairwise(speeds)
            if cpus <= more
        )

    def _speeds(self, memory_mb: int) -> Sequence[tuple[int, float]]:
        """CPUs and speed, both ascending; of points with so much memory at most, if there are any."""
        some = [seen for seen in self.points if seen.cpus and (seen.memory_mb <= memory_mb or not memory_mb)]
        some = some or [seen for seen in self.points if seen.cpus]
        of_cpus = {seen.cpus: seen for seen in sorted(some, key=lambda seen: (seen.cpus, seen.memory_mb))}
        speeds = list[tuple[int, float]]()
        for cpus, seen in of_cpus.items():
            speed = 1 - min(seen.share, _MOST_WAITING)
            # Measurements are noisy, and more CPUs never make a step slower.
            speeds.append((cpus, max(speed, speeds[-1][1] if speeds else 0.0)))
        return speeds


def _exponent_beyond(speeds: Sequence[tuple[int, float]]) -> float:
    most, fastest = speeds[-1]
    if fastest > 1 - WAITS:
        return 0.0
    before = [(cpus, speed) for cpus, speed in speeds if cpus * _APART <= most]
    if not before:
        # That what waits for data waits for CPUs is taken for granted until a second point is known.
        return 1.0
    fewer, slower = before[-1]
    found = min(_exponent(slower, fastest, fewer, most), 1.0)
    return found if found >= _FLAT else 0.0


def _power(ratio: float, exponent: float) -> float:
    return exp(exponent * log(ratio))


def _exponent(low: float, high: float, fewer: int, more: int) -> float:
    return log(high / low) / log(more / fewer)


def summed_up(measurements: Sequence[tuple[DataWait, float]]) -> WaitProfile | None:
    """The profile after several measurements, each of some seconds; None: none was made.

    Those that follow each other with the same CPUs and memory are averaged.
    """
    known: WaitProfile | None = None
    # Not sorted: what was measured after a change is news, and is not averaged with what came before it.
    for (cpus, memory_mb), alike in groupby(measurements, key=lambda pair: (pair[0].cpus, pair[0].memory_mb)):
        measured = list(alike)
        elapsed_s = sum(each_s for _, each_s in measured)
        share = sum(seen.share * each_s for seen, each_s in measured) / elapsed_s
        known = WaitProfile((DataWait(share, cpus, memory_mb),)).after(known)
    return known


_NOTHING_SEEN = WaitProfile()


@dataclass(frozen=True, slots=True)
class NewPart:
    """A part of a node that is about to be lent.

    Attributes:
        asks: amount that its task asks for, and has in any case.
        data_wait_share: part of a step that its training waits for data with what it asks for.
        cache_mb: memory beyond what it asks for with which its training would read all data from memory; 0: its
            owner says of none.
        profile: its waits with other CPUs and memory, as far as they were seen.
    """

    place: str
    trainer: str
    asks: Amount
    data_wait_share: float
    cache_mb: int = 0
    profile: WaitProfile = _NOTHING_SEEN


@dataclass(frozen=True, slots=True)
class SharedNode:
    """A node of which new parts are lent.

    Attributes:
        spare: amount that is left of it when all new parts have what they ask for.
        free_gpus: free GPUs, those of the new parts among them.
        threads_per_core: Slurm gives whole cores.
    """

    name: str
    spare: Amount
    free_gpus: int
    threads_per_core: int
    parts: tuple[NewPart, ...]
