"""Jobs, frozen at one instant, as Slurm shows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.amounts import Amount
from freetrain.core.node import Nodes
from freetrain.core.quick_enum import quick


@quick
class JobState(StrEnum):
    """Slurm's base states of a job; any other word is UNKNOWN, and nothing is concluded from it."""

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
        return self not in _NOT_FINAL


_WITH_NODES = {JobState.RUNNING, JobState.SUSPENDED, JobState.CONFIGURING, JobState.COMPLETING}
# A state that is not understood is not an end.
_NOT_FINAL = _WITH_NODES | {JobState.PENDING, JobState.REQUEUED, JobState.REQUEUE_HOLD, JobState.UNKNOWN}


class WaitsFor(StrEnum):
    """Reasons for which a job waits."""

    NODES = "nodes"
    """Nodes only: it starts as soon as there are nodes for it."""
    RELEASE = "release"
    """Its release: it is held."""
    TIME = "time"
    """The time at which it may begin; Slurm sets one for what it requeues."""
    OWNERS_LIMIT = "owner's limit"
    """A limit of its owner, account or QOS, or the partition's for jobs of so many nodes."""
    ITSELF = "itself"
    """Something of its own that no node can give it: another job, a licence, a reservation."""
    POSSIBILITY = "possibility"
    """Nodes that do not exist: no node will ever do."""
    QUEUE = "queue"
    """A condition that concerns all jobs of its partition alike."""
    OTHER = "other"
    """Something that freetrain does not know."""


class LimitOf(StrEnum):
    """Jobs that count in a limit together."""

    ACCOUNT = "account"
    """Jobs of an account, or of any account below it."""
    USER = "user"
    """Jobs of a user in an account."""
    QOS = "QOS"
    """Jobs of a QOS."""
    QOS_AND_USER = "QOS and user"
    """Jobs of a user in a QOS."""
    QOS_AND_ACCOUNT = "QOS and account"
    """Jobs of an account in a QOS."""


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A limit on the ``cpu``, ``mem``, ``node``, ``gres``, ``jobs`` or (empty) something else of several jobs."""

    of: LimitOf
    counts: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A job's request for its nodes, or what it has of them.

    Attributes:
        part: amount of each node; None: all of it, or that is not clear.
        least: amount that each node must have, where it wants all of it; None: that is not clear.
        total: amount of all its nodes together, as limits count it; None: that is not clear.
    """

    part: Amount | None = None
    least: Amount | None = None
    total: Amount | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job, or one task of an array.

    Attributes:
        id: ``123``, or ``123_4`` for a task of an array.
        array: id of the array it is a task of, else its own.
        partition: partition in which it runs or waits; several, comma-separated, while it waits.
        reason: reason why it waits, in Slurm's own word, for people.
        node_count: number of nodes that it wants, or has.
        start_s: time at which it started; of a waiting job: the start that Slurm plans, or None.
        end_s: time at which its limit ends; None: unknown.
        limit_s: its time limit; inf without one.
        priority: the higher the sooner; 0: held.
        qos: its quality of service; empty: it has none, or it was not asked for.
        tasks: number of waiting tasks of an array that it stands for, no more than may run at once.
        asks: amount of each of its nodes that it wants, or has; None: all, or unknown.
        least: amount that each of its nodes must have, where it wants all of it; None: unknown.
        total: amount of all its nodes together that it wants, or has; None: unknown.
        limit: the limit that it waits for; None: it waits for none, or for one that only its own size counts in.
        dependency: other jobs that it still waits for, in Slurm's words; empty: none.
        max_running: tasks of its array that may run at once, as its owner asked; 0: any number.
        comment: free text; here is freetrain's tag.
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
    least: Amount | None = None
    total: Amount | None = None
    limit: SharedLimit | None = None
    dependency: str = ""
    max_running: int = 0
    comment: str = ""
    name: str = ""

    @property
    def is_held(self) -> bool:
        """Whether it waits for its release; its priority is 0 then, whatever reason is given."""
        return self.state is JobState.PENDING and (self.priority == 0 or self.waits_for is WaitsFor.RELEASE)


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job in accounting's memory.

    Attributes:
        state: state in which it ended, or RUNNING.
        end_s: time at which it ended; None: it has not.
    """

    id: str
    state: JobState
    start_s: float | None
    end_s: float | None


def shares_limit(job: Job, other: Job) -> bool:
    """Whether two jobs count in the limit that the first waits for, as far as their own words tell.

    Accounts above those that the jobs name, and the QOS of their partitions, are not known here.
    """
    if job.limit is None:
        return False
    # Chained with != "": a name that is not known equals no other.
    same_account = job.account == other.account != ""
    same_qos = job.qos == other.qos != ""
    names = {
        LimitOf.ACCOUNT: (same_account,),
        LimitOf.USER: (job.user == other.user, same_account),
        LimitOf.QOS: (same_qos,),
        LimitOf.QOS_AND_USER: (same_qos, job.user == other.user),
        LimitOf.QOS_AND_ACCOUNT: (same_qos, same_account),
    }
    return all(names[job.limit.of])
