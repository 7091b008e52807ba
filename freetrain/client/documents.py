"""Documents for programs: the output of listings with ``--json``, and the answers of the web page's API. Pure.

Each is a type, of which the API's description is made, with the daemon's state and its format's name and version;
a field may be added to a format, none changes or goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

from freetrain.client.trainings import JobEntry, ListedTraining
from freetrain.daemon.reports.standing import DaemonState, Standing
from freetrain.daemon.reports.status import NodeGroup
from freetrain.slurm.parsing import expand_nodes


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """State of the daemon, and the number of nodes and of trainings in each state.

    ``more`` is a state of trainings, too: of those that are not published one by one.
    """

    daemon: DaemonState
    nodes: Mapping[str, int]
    trainers: Mapping[str, int]
    format: Literal["freetrain-daemon/1"] = "freetrain-daemon/1"


@dataclass(frozen=True, slots=True)
class NodesEntry:
    """Nodes with the same state, training, reason and end.

    Attributes:
        state: free, lent, asked for, due back or not lent.
        trainer: id of the training that has them, or for which they are asked for; null: none.
        why: reason why they are not lent, or due back; empty: they are lent or free.
        verdict: the name of that reason (docs/reference/verdicts.md); null: none.
        until: time at which they will be wanted, UTC epoch seconds; null: unknown.
    """

    nodes: Sequence[str]
    state: str
    trainer: str | None
    why: str
    verdict: str | None
    until: float | None


@dataclass(frozen=True, slots=True)
class NodesDocument:
    """The nodes of the partition, in groups."""

    daemon: DaemonState
    nodes: Sequence[NodesEntry]
    format: Literal["freetrain-nodes/2"] = "freetrain-nodes/2"


@dataclass(frozen=True, slots=True)
class JobsDocument:
    """The trainings and fillers, oldest first."""

    daemon: DaemonState
    jobs: Sequence[JobEntry]
    format: Literal["freetrain-jobs/2"] = "freetrain-jobs/2"


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A training of the user who asks.

    Attributes:
        why: reason why it has no nodes, or no more; empty: unknown.
        what_helps: advice that would change that; empty: likewise.
        target_samples: number of samples after which it is complete; null: unknown.
        curve: pairs of a number of nodes and samples per second on so many.
        curve_is_claim: whether nothing was seen yet, and the curve is its owner's claim.
    """

    job: JobEntry
    why: str
    what_helps: str
    target_samples: float | None
    curve: Sequence[tuple[int, float]]
    curve_is_claim: bool


@dataclass(frozen=True, slots=True)
class OwnJobsDocument:
    """The trainings and fillers of the user who asks, in the order of the page."""

    user: str
    daemon: DaemonState
    jobs: Sequence[OwnJob]
    format: Literal["freetrain-own-jobs/1"] = "freetrain-own-jobs/1"


def status_document(standing: Standing) -> StatusDocument:
    """Document of ``freetrain status --json``."""
    look = standing.look
    nodes: Counter[str] = Counter()
    for group in look.nodes if look else ():
        nodes[group.state] += len(expand_nodes(group.nodes))
    trainers = Counter(trainer.state for trainer in look.trainers) if look else Counter[str]()
    more = Counter(more=look.trainers_left_out) if look else Counter[str]()
    return StatusDocument(standing.state(), dict(nodes), dict(trainers + more))


def nodes_document(standing: Standing, groups: Iterable[NodeGroup]) -> NodesDocument:
    """Document of ``freetrain nodes --json``."""
    return NodesDocument(standing.state(), [nodes_entry(group) for group in groups])


def nodes_entry(group: NodeGroup) -> NodesEntry:
    """Entry of a group of nodes."""
    return NodesEntry(
        nodes=sorted(expand_nodes(group.nodes)),
        state=group.state,
        trainer=group.trainer or None,
        why=group.why,
        verdict=group.verdict or None,
        until=group.until_s,
    )


def jobs_document(standing: Standing, trainings: Iterable[ListedTraining]) -> JobsDocument:
    """Document of ``freetrain jobs --json``."""
    return JobsDocument(standing.state(), [job_entry(training) for training in trainings])


def job_entry(training: ListedTraining) -> JobEntry:
    """Entry of a training or a filler."""
    known = asdict(training)
    return JobEntry(**{field.name: known[field.name] for field in fields(JobEntry)})
