"""Shares of servers: what CPUs and memory do for a training (its profile), and which training has how much."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
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
        """The rate with at least so much; 0 below the smallest point, and no promise between two points.

        A data set that does not quite fit into memory is as slow as one that does not fit at all.
        """
        column = bisect_right(self.cpus, cpus + 1e-9) - 1
        row = bisect_right(self.memory_gb, memory_gb + 1e-9) - 1
        return self.rates[row][column] if column >= 0 and row >= 0 else 0.0

    @cached_property
    def demand(self) -> tuple[float, float]:
        """The least CPUs, and with them the least memory, at which it is as fast as it can be."""
        return self.demand_within(inf, inf)

    def demand_within(self, cpus: float, memory_gb: float) -> tuple[float, float]:
        """The demand within so much: as fast as with all of it; all of it where it lies below the points."""
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


@dataclass(frozen=True, slots=True)
class SharedServer:
    """What a server offers, after the amounts of other jobs.

    Attributes:
        name: its name.
        gpus: offered.
        cpus: offered.
        memory_gb: offered.
    """

    name: str
    gpus: int
    cpus: float
    memory_gb: float


@dataclass(frozen=True, slots=True)
class SharingJob:
    """A training on shared servers.

    Attributes:
        id: its name.
        gpus: that it has, or is to have.
        profile: what CPUs and memory do for it.
    """

    id: str
    gpus: int
    profile: Profile


@dataclass(slots=True)
class ServerShare:
    """The share of one server that a training has."""

    gpus: int
    cpus: float
    memory_gb: float


Parts = dict[str, dict[str, ServerShare]]
"""Training → server → what it has of it."""


def rate_of(job: SharingJob, parts: Mapping[str, ServerShare]) -> float:
    """Rate relative to that at its share; the slowest part sets the pace."""
    return min(job.profile.rate(part.cpus / part.gpus, part.memory_gb / part.gpus) for part in parts.values())


class Board:
    """Servers while they are being shared out.

    Attributes:
        free: what nobody has of each server.
        shares: CPUs and memory for each GPU of what each server offers; of one without GPUs, nothing.
        parts: what each training has.
        on: the trainings on each server.
    """

    def __init__(self, servers: Sequence[SharedServer]) -> None:
        self.free = {server.name: ServerShare(server.gpus, server.cpus, server.memory_gb) for server in servers}
        self.shares = {
            server.name: (server.cpus / server.gpus, server.memory_gb / server.gpus) if server.gpus else (0.0, 0.0)
            for server in servers
        }
        self.parts: Parts = {}
        self.on: dict[str, set[str]] = {server.name: set() for server in servers}

    def fits(self, name: str, gpus: int, cpus: float, memory_gb: float) -> bool:
        """Whether so much is free."""
        free = self.free[name]
        return gpus <= free.gpus and cpus <= free.cpus + 1e-9 and memory_gb <= free.memory_gb + 1e-9

    def give(self, job: str, name: str, gpus: int, cpus: float, memory_gb: float) -> None:
        """Give a training more of a server."""
        free, mine = self.free[name], self.parts.setdefault(job, {})
        part = mine.setdefault(name, ServerShare(0, 0.0, 0.0))
        part.gpus, part.cpus, part.memory_gb = part.gpus + gpus, part.cpus + cpus, part.memory_gb + memory_gb
        free.gpus, free.cpus, free.memory_gb = free.gpus - gpus, free.cpus - cpus, free.memory_gb - memory_gb
        self.on[name].add(job)

    def take_all(self, job: str) -> None:
        """Take everything back from a training."""
        for name, part in self.parts.pop(job, {}).items():
            free = self.free[name]
            free.gpus, free.cpus = free.gpus + part.gpus, free.cpus + part.cpus
            free.memory_gb += part.memory_gb
            self.on[name].discard(job)

    def resize(self, job: str, name: str, cpus: float, memory_gb: float) -> None:
        """Let a training have so much of a server for each of its GPUs there."""
        part, free = self.parts[job][name], self.free[name]
        free.cpus += part.cpus - cpus * part.gpus
        free.memory_gb += part.memory_gb - memory_gb * part.gpus
        part.cpus, part.memory_gb = cpus * part.gpus, memory_gb * part.gpus
