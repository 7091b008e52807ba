"""Preconditions that a tagged array must meet so that its tasks can be fragments, however it came in. Pure.

There are four ways: ``freetrain submit``, ``freetrain register``, the job_submit plug-in, and sbatch with a tag.
The first three ask for the right options by themselves; none is trusted. An array that cannot be right is refused;
what its owner asked for is waited for; what freetrain may change is put right before any node is lent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.submissions import Submission


class Unmet(Enum):
    """Consequence of a precondition that is not met."""

    REFUSED = auto()
    """The array is refused, and its owner informed."""
    WAITED_FOR = auto()
    """It gets no node until it is met."""
    PUT_RIGHT = auto()
    """It gets no node, and freetrain changes the array so that it is met."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An array that wants nodes.

    Attributes:
        has_run: whether a task of it was ever lent a node.
        some_completed: whether some of its tasks have completed, and are perhaps not shown any more.
    """

    submission: Submission
    now_s: float = 0.0
    has_run: bool = False
    some_completed: bool = False


@dataclass(frozen=True, slots=True)
class Precondition:
    """A precondition of an array.

    Attributes:
        name: for tests and docs.
        why_not: fault of an array, as a clause for its owner; empty: none.
        then: consequence where it is not met.
        repair: the order that puts it right.
    """

    name: str
    why_not: Callable[[Candidate], str]
    then: Unmet
    repair: Callable[[Submission], Command] | None = None


def _whole_nodes(candidate: Candidate) -> str:
    if candidate.submission.is_moldable and candidate.submission.needs.in_part:
        return "tasks of several nodes have whole ones: submit it with --exclusive"
    return ""


def _one_node_each(candidate: Candidate) -> str:
    submission = candidate.submission
    if submission.is_moldable or all(task.node_count == 1 for task in submission.tasks):
        return ""
    return "each of its tasks must ask for one node: submit an array with --nodes=1"


def _enough_tasks(candidate: Candidate) -> str:
    submission, tag = candidate.submission, candidate.submission.good_tag
    if tag is None or tag.is_moldable or candidate.some_completed or tag.min_nodes <= len(submission.tasks):
        return ""
    return f"min={tag.min_nodes}, but it has {len(submission.tasks)} tasks"


def _enough_at_once(candidate: Candidate) -> str:
    submission, tag = candidate.submission, candidate.submission.good_tag
    at_once = submission.max_running
    if tag is None or tag.is_moldable or not at_once or tag.min_nodes <= at_once:
        return ""
    return f"min={tag.min_nodes}, but its array lets {at_once} of its tasks run at once (%{at_once})"


def _requeued(candidate: Candidate) -> str:
    if candidate.submission.requeues:
        return ""
    return (
        "Slurm would cancel its tasks instead of requeueing them (--no-requeue), until freetrain has changed that"
    )


def _dependency(candidate: Candidate) -> str:
    waiting = [task for task in candidate.submission.tasks if task.state.is_waiting]
    if not waiting or not all(task.dependency for task in waiting):
        return ""
    return f"it waits for other jobs, as its owner asked (dependency {waiting[0].dependency})"


def _begin(candidate: Candidate) -> str:
    # Slurm itself gives what it requeues a later time to begin at: the owner's counts before the first run only.
    wait_s = candidate.submission.begin_s - candidate.now_s
    if candidate.has_run or wait_s <= 0:
        return ""
    return f"its owner lets it begin later (--begin), in {wait_s / 60:.0f} min"


PRECONDITIONS: Sequence[Precondition] = (
    Precondition("whole nodes for several", _whole_nodes, Unmet.REFUSED),
    Precondition("one node for each task", _one_node_each, Unmet.REFUSED),
    Precondition("tasks for its minimum of nodes", _enough_tasks, Unmet.REFUSED),
    Precondition("tasks at once for its minimum of nodes", _enough_at_once, Unmet.REFUSED),
    Precondition(
        "requeued when preempted",
        _requeued,
        Unmet.PUT_RIGHT,
        lambda submission: commands.let_requeue(submission.open_tasks),
    ),
    Precondition("no other job to wait for", _dependency, Unmet.WAITED_FOR),
    Precondition("time to begin", _begin, Unmet.WAITED_FOR),
)
"""All preconditions, in the order in which they are shown; licences and burst buffers are among a task's needs."""

OF_PATTERNS: Sequence[Precondition] = tuple(rule for rule in PRECONDITIONS if rule.then is Unmet.WAITED_FOR)
"""The preconditions of a job that is only a pattern for fragments."""


def refusal(candidate: Candidate) -> str:
    """Reason why it cannot be a trainer at all, as a clause for its owner; empty: it can."""
    return _first_unmet(candidate, (rule for rule in PRECONDITIONS if rule.then is Unmet.REFUSED))


def why_not_yet(candidate: Candidate, preconditions: Sequence[Precondition] = PRECONDITIONS) -> str:
    """Reason why it gets no node yet, as a clause for its owner; empty: nothing is missing."""
    return _first_unmet(candidate, (rule for rule in preconditions if rule.then is not Unmet.REFUSED))


def _first_unmet(candidate: Candidate, preconditions: Iterable[Precondition]) -> str:
    return next(filter(None, (precondition.why_not(candidate) for precondition in preconditions)), "")


def repairs(submission: Submission) -> list[tuple[Command, str]]:
    """Orders that put the array right, each with the reason for the audit."""
    candidate = Candidate(submission)
    return [
        (precondition.repair(submission), f"{submission.id} was not {precondition.name}")
        for precondition in PRECONDITIONS
        if precondition.repair is not None and precondition.why_not(candidate) and submission.open_tasks
    ]
