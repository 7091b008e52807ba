"""Nodes, partitions and reservations of Slurm, frozen at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.amounts import GPU, Amount, Gres
from freetrain.core.quick_enum import quick

Nodes = frozenset[str]


@quick
class NodeState(StrEnum):
    """State of a node."""

    IDLE = "idle"
    """No job has it."""
    BUSY = "busy"
    """Jobs have it, or a part of it."""
    DOWN = "down"
    """It is down, or does not answer."""
    UNKNOWN = "unknown"
    """Slurm does not say, as after its restart: nothing is concluded from that."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    Attributes:
        state_text: its state in Slurm's own words, for people.
        may_be_lent: whether Slurm says nothing that speaks against lending it.
        is_wanted: whether it is to be drained, rebooted, powered down or reserved; a fragment has to leave then.
        was_not_cleared: whether Slurm took it out of service since what ran there could not be cleared up.
        cpus: CPUs that jobs may have, threads counted.
        used: amount of it that jobs have; None: unknown.
    """

    name: str
    state: NodeState
    state_text: str = ""
    may_be_lent: bool = True
    is_planned: bool = False
    is_wanted: bool = False
    starts_jobs: bool = True
    was_not_cleared: bool = False
    features: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    gres: Gres = ()
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    used: Amount | None = None

    @property
    def gpu_types(self) -> frozenset[str]:
        """The types of its GPUs."""
        prefix = f"{GPU}:"
        return frozenset(name.removeprefix(prefix) for name, _ in self.gres if name.startswith(prefix))

    @property
    def total(self) -> Amount:
        """The amount of all of it."""
        return Amount(self.cpus, self.memory_mb, self.gres)

    def in_whole_cores(self, part: Amount) -> Amount:
        """A part as Slurm gives it: whole cores, never some threads of one."""
        threads = max(self.threads_per_core, 1)
        if part.cpus % threads == 0:
            return part
        return Amount(-(-part.cpus // threads) * threads, part.memory_mb, part.gres)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition.

    Attributes:
        priority_tier: jobs of a higher tier may preempt those of a lower one.
        preempt_mode: OFF, CANCEL, REQUEUE, SUSPEND …; as Slurm says.
        max_time_s: longest time limit, inf without one.
        default_memory_mb: of a job that asks for none, per CPU or per node; 0: the cluster's default.
    """

    name: str
    nodes: Nodes
    is_up: bool = True
    priority_tier: int = 1
    preempt_mode: str = "OFF"
    grace_s: float = 0.0
    max_time_s: float = float("inf")
    default_memory_mb: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """An advance reservation of nodes, for maintenance or for users; its flags as MAINT, IGNORE_JOBS, FLEX."""

    name: str
    nodes: Nodes
    start_s: float
    end_s: float
    flags: frozenset[str] = frozenset()
