"""Shared servers, the trainings on them, and who has which CPUs and how much memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freetrain.policies.synergy.sensitivity import Profile


@dataclass(frozen=True, slots=True)
class Server:
    """What a server offers, which is what others leave of it.

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
class Part:
    """What a training has of one server."""

    gpus: int
    cpus: float
    memory_gb: float


Parts = dict[str, dict[str, Part]]
"""Training → server → what it has of it."""


def rate_of(job: SharingJob, parts: Mapping[str, Part]) -> float:
    """Rate relative to that at its share; the slowest part sets the pace."""
    return min(job.profile.rate(part.cpus / part.gpus, part.memory_gb / part.gpus) for part in parts.values())


class Board:
    """Servers while they are being shared out.

    Args:
        servers: all there are.
    """

    def __init__(self, servers: Iterable[Server]) -> None:
        self.servers = {server.name: server for server in servers}
        self.free = {
            server.name: Part(server.gpus, server.cpus, server.memory_gb) for server in self.servers.values()
        }
        self.parts: Parts = {}
        self.on: dict[str, set[str]] = {name: set() for name in self.servers}

    def share(self, name: str) -> tuple[float, float]:
        """CPUs and memory for each GPU of what the server offers; of one without GPUs, nothing."""
        server = self.servers[name]
        return (server.cpus / server.gpus, server.memory_gb / server.gpus) if server.gpus else (0.0, 0.0)

    def fits(self, name: str, gpus: int, cpus: float, memory_gb: float) -> bool:
        """Whether so much is free."""
        free = self.free[name]
        return gpus <= free.gpus and cpus <= free.cpus + 1e-9 and memory_gb <= free.memory_gb + 1e-9

    def give(self, job: str, name: str, gpus: int, cpus: float, memory_gb: float) -> None:
        """Give a training more of a server."""
        free, mine = self.free[name], self.parts.setdefault(job, {})
        part = mine.setdefault(name, Part(0, 0.0, 0.0))
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
