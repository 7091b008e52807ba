"""How much faster a training is with more CPUs and memory than its GPUs' share of them: profiles."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from math import inf


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
        return self.demand_within(inf, inf)

    def demand_within(self, cpus: float, memory_gb: float) -> tuple[float, float]:
        """The same, of at most so much: it is as fast as with all that; all that where it is below its points."""
        known = self._demands_within
        if (cpus, memory_gb) not in known:
            known[cpus, memory_gb] = self._find_demand(cpus, memory_gb)
        return known[cpus, memory_gb]

    @cached_property
    def _demands_within(self) -> dict[tuple[float, float], tuple[float, float]]:
        return {}

    def _find_demand(self, cpus: float, memory_gb: float) -> tuple[float, float]:
        best = self.rate(cpus, memory_gb)
        return min(
            (
                (its_cpus, its_gb)
                for its_gb, row in zip(self.memory_gb, self.rates, strict=True)
                for its_cpus, rate in zip(self.cpus, row, strict=True)
                if rate >= best - 1e-9 and its_cpus <= cpus + 1e-9 and its_gb <= memory_gb + 1e-9
            ),
            default=(cpus, memory_gb),
        )
