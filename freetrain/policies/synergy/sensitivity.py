"""How much faster a training is with more CPUs and memory than its GPUs' share of them: profiles."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

_SAME = 0.1
"""Two times that differ by less than this share count as equal."""


@dataclass(frozen=True)
class Profile:
    """Rates at points of CPUs and memory for each GPU, relative to the rate at the GPU's share of both.

    Attributes:
        cpus: for each GPU, ascending.
        memory_gb: for each GPU, ascending.
        rates: of each memory size a row, of each number of CPUs a column.
    """

    cpus: tuple[float, ...]
    memory_gb: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]

    def rate(self, cpus: float, memory_gb: float) -> float:
        """With at least so much; 0 below the smallest point, and no promise between two points.

        A data set that does not quite fit into memory is as slow as one that does not fit at all.
        """
        column = bisect_right(self.cpus, cpus + 1e-9) - 1
        row = bisect_right(self.memory_gb, memory_gb + 1e-9) - 1
        return self.rates[row][column] if column >= 0 and row >= 0 else 0.0

    @cached_property
    def demand(self) -> tuple[float, float]:
        """The fewest CPUs, and with them the least memory, at which it is as fast as it can be."""
        best = max(map(max, self.rates))
        return min(
            (cpus, memory_gb)
            for memory_gb, row in zip(self.memory_gb, self.rates, strict=True)
            for cpus, rate in zip(self.cpus, row, strict=True)
            if rate >= best - 1e-9
        )


def profile_cpus(step_s: Callable[[int], float], cpus: int, gpus: int) -> Mapping[int, float]:
    """Number of CPUs → seconds of a step, measured at few points only, from all CPUs downward.

    While fewer CPUs change nothing their number is halved, from where they do it falls by one for each GPU.

    Args:
        step_s: measures; the first measurement is thrown away.
        cpus: all there are.
        gpus: of the training.
    """
    step_s(cpus)
    measured = {cpus: step_s(cpus)}
    now, halving = cpus, True
    while (fewer := now // 2 if halving else now - gpus) >= gpus:
        measured[fewer] = step_s(fewer)
        halving = halving and measured[fewer] <= measured[now] * (1 + _SAME)
        now = fewer
    return measured


def rate_by_data_wait(wait_share: float, cpus_now: float, cpus: float) -> float:
    """Rate with other CPUs relative to now, from the share of a step that is spent waiting for data.

    Reading takes as long as the rest of the step where it is waited for, and is taken to be in proportion to the
    CPUs; where nothing is waited for, nothing is known but that more CPUs do not help.
    """
    if wait_share <= 0:
        return min(1.0, cpus / cpus_now)
    return min(1 / (1 - min(wait_share, 0.99)), cpus / cpus_now)


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a data set is read from.

    Attributes:
        memory_bytes_per_s: of what is cached.
        disk_bytes_per_s: of what is not.
    """

    memory_bytes_per_s: float
    disk_bytes_per_s: float


def epoch_s(all_cached_s: float, dataset_bytes: float, cached_bytes: float, storage: Storage) -> float:
    """Seconds of an epoch where only a part of the data set is cached.

    That part must not change within an epoch, as with a cache of the training's own; the kernel's page cache does
    not work so, and its gain is not reckoned with.
    """
    cached = min(cached_bytes, dataset_bytes)
    reading_s = cached / storage.memory_bytes_per_s + (dataset_bytes - cached) / storage.disk_bytes_per_s
    return max(all_cached_s, reading_s)
