"""What there is on a Slurm machine at one instant: frozen facts, as Slurm told them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from freetrain.core.amounts import GPU, Amount, Gres

Nodes = frozenset[str]


class JobState(StrEnum):
    """Slurm's base states of a job; whatever else it says is UNKNOWN, and nothing is concluded from it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CONFIGURING = "CONFIGURING"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    REQUEUED = "REQUEUED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    UNKNOWN = "UNKNOWN"

    @property
    def has_nodes(self) -> bool:
        """Whether a job in this state occupies its nodes."""
        return self in _WITH_NODES

    @property
    def is_waiting(self) -> bool:
        """Whether a job in this state has still to start."""
        return self is JobState.PENDING

    @property
    def is_final(self) -> bool:
        """Whether the job is over."""
        return self in _FINAL


_WITH_NODES = {JobState.RUNNING, JobState.SUSPENDED, JobState.CONFIGURING, JobState.COMPLETING}
_FINAL = {
    JobState.COMPLETED,
    JobState.CANCELLED,
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.NODE_FAIL,
    JobState.PREEMPTED,
    JobState.OUT_OF_MEMORY,
    JobState.BOOT_FAIL,
    JobState.DEADLINE,
}


class NodeState(StrEnum):
    """What a node does."""

    IDLE = "idle"
    """Nobody has it."""
    BUSY = "busy"
    """Jobs have it, or a part of it."""
    DOWN = "down"
    """It is down, or does not answer."""
    UNKNOWN = "unknown"
    """Slurm does not say, as after its restart: nothing is concluded from that."""


class WaitsFor(StrEnum):
    """What a waiting job waits for."""

    NODES = "nodes"
    """Nothing else: it starts as soon as there are nodes for it."""
    RELEASE = "release"
    """Somebody holds it."""
    TIME = "time"
    """The time at which it may begin; Slurm sets one for what it requeues."""
    OWNERS_LIMIT = "owner's limit"
    """Its owner's, account's or QOS's limit, or the partition's for jobs of so many nodes."""
    POSSIBILITY = "possibility"
    """No node will ever do."""
    OTHER = "other"
    """Another job, a licence, or something that freetrain does not know."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    Attributes:
        name: Slurm's name.
        state: what it does.
        said: its state in Slurm's own words, for people.
        may_be_lent: whether Slurm says nothing that speaks against lending it.
        is_planned: whether Slurm has planned a job on it.
        is_wanted: whether it is to be drained, rebooted, powered down or reserved; a fragment has to leave then.
        starts_jobs: whether a job may start on it.
        was_not_cleared: whether Slurm took it out of service since what ran there could not be cleared up.
        features: for constraints.
        partitions: that it belongs to.
        cpus: that jobs may have, threads counted.
        memory_mb: that is configured.
        disk_mb: local disk that is configured.
        gres: generic resources.
        sockets: how many.
        cores_per_socket: how many.
        threads_per_core: how many.
        used: how much of it jobs have; None: nobody asked.
    """

    name: str
    state: NodeState
    said: str = ""
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
        """How much there is of it."""
        return Amount(self.cpus, self.memory_mb, self.gres)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition.

    Attributes:
        name: its name.
        nodes: its nodes.
        is_up: whether jobs may start in it.
        priority_tier: jobs of a higher tier may preempt those of a lower one.
        preempt_mode: OFF, CANCEL, REQUEUE, SUSPEND …; as Slurm says.
        grace_s: how long a preempted job may go on.
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
class Job:
    """A job, or one task of an array.

    Attributes:
        id: ``123``, or ``123_4`` for a task of an array.
        array: id of the array it is a task of, else its own.
        user: the owner's name.
        account: to whom it is charged.
        partition: where it runs or waits; several, comma-separated, while it waits.
        state: the base state.
        reason: why it waits, in Slurm's own word, for people.
        waits_for: what that means.
        nodes: that it has (running) or had.
        node_count: how many it wants, or has.
        submitted_s: when it was submitted, UTC epoch seconds.
        start_s: when it started; of a waiting job: when Slurm plans to start it, or None.
        end_s: when its limit ends; None: unknown.
        planned_nodes: on which nodes Slurm plans to start it.
        limit_s: its time limit; inf without one.
        priority: the higher the sooner; 0: held.
        features: its constraint, as given.
        qos: its quality of service; empty: it has none, or nobody asked.
        required_nodes: nodes that it asked for by name.
        tasks: how many waiting tasks of an array it stands for, no more than may run at once.
        asks: how much of each of its nodes it wants, or has; None: all, or nobody asked.
        comment: free text; here is freetrain's tag.
        name: free text.
    """

    id: str
    array: str
    user: str
    partition: str
    state: JobState
    reason: str = ""
    waits_for: WaitsFor = WaitsFor.NODES
    account: str = ""
    nodes: Nodes = frozenset()
    node_count: int = 1
    submitted_s: float = 0.0
    start_s: float | None = None
    end_s: float | None = None
    planned_nodes: Nodes = frozenset()
    limit_s: float = float("inf")
    priority: int = 1
    features: str = ""
    qos: str = ""
    required_nodes: Nodes = frozenset()
    tasks: int = 1
    asks: Amount | None = None
    comment: str = ""
    name: str = ""

    @property
    def is_held(self) -> bool:
        """Whether it waits for somebody to release it; its priority is 0 then, whatever reason is given."""
        return self.state is JobState.PENDING and (self.priority == 0 or self.waits_for is WaitsFor.RELEASE)


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job, as accounting remembers it.

    Attributes:
        id: of the job or array task.
        state: how it ended, or RUNNING.
        start_s: when it began, UTC epoch seconds.
        end_s: when it ended; None: it has not.
    """

    id: str
    state: JobState
    start_s: float | None
    end_s: float | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """An advance reservation of nodes, for maintenance or for somebody.

    Attributes:
        name: its name.
        nodes: its nodes.
        start_s: when it begins, UTC epoch seconds.
        end_s: when it ends.
        flags: as MAINT, IGNORE_JOBS, FLEX.
    """

    name: str
    nodes: Nodes
    start_s: float
    end_s: float
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Snapshot:
    """Everything observed at one instant.

    Attributes:
        time_s: that instant, UTC epoch seconds.
        nodes: all nodes.
        jobs: all that wait, run, or ended a moment ago.
        reservations: that run or will.
        partitions: by name.
        rejected: lines of Slurm's answers that could not be understood, with the reason.
    """

    time_s: float
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    reservations: tuple[Reservation, ...] = ()
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()

    @cached_property
    def job(self) -> Mapping[str, Job]:
        """Jobs by id."""
        return {job.id: job for job in self.jobs}

    @cached_property
    def node(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def idle(self) -> Nodes:
        """Names of the nodes that are idle."""
        return Nodes(node.name for node in self.nodes if node.state is NodeState.IDLE)
