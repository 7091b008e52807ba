"""The trainings that were handed to freetrain, and their states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from freetrain.config import Config
from freetrain.core.fragment import End
from freetrain.core.job import JobState
from freetrain.core.known_trainer import UNKNOWN_END, TrainerState
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.daemon.setup import launcher_of
from freetrain.daemon.trainers.needs import lacks, needs_of
from freetrain.policies.needs import Need
from freetrain.slurm.comments import answer_in, asked_to_resume
from freetrain.slurm.launcher import jobs_of_trainers
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.slurm.tags import Tag, WrongTag

RUNNING, STARTING, WAITING = "running", "starting", "waiting"
_STUCK = frozenset({str(TrainerState.REFUSED), str(TrainerState.PAUSED)})


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A training or a filler that was handed to freetrain, as ``freetrain jobs --json`` prints it.

    Attributes:
        id: id of its array or job.
        asked_nodes: nodes on which Slurm was ordered to start it.
        min_nodes: its minimum; None: its tag is wrong.
        max_nodes: likewise.
        task_nodes: minimum and maximum of each task of a filler; None: one node each.
        samples: number of samples that it has done; None: no daemon has published them.
        ends: way in which fragments of it ended → how often; None: likewise.
        costs: name of a cost → seconds that such a change is taken to cost it; None: likewise.
        speeds: feature or type of GPU → speed that it is taken to have there; None: likewise.
        fault: error in its own files; empty: none.
        lacks: facts that the policy needs and its tag does not have; empty: none.
        state: its state, in a word or a sentence.
    """

    id: str
    name: str
    user: str
    nodes: Sequence[str]
    asked_nodes: Sequence[str]
    min_nodes: int | None
    max_nodes: int | None
    task_nodes: tuple[int, int] | None
    samples: float | None
    ends: Mapping[str, int] | None
    costs: Mapping[str, float] | None
    speeds: Mapping[str, float] | None
    fault: str
    lacks: str
    state: str


@dataclass(frozen=True, slots=True)
class ListedTraining(JobEntry):
    """A training or a filler with the fields by which listings filter."""

    account: str  # to which it is charged; empty: unknown
    word: str  # running, starting or waiting, or one of freetrain's states: resting, paused, refused, complete

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.word == TrainerState.COMPLETE

    @property
    def needs_its_owner(self) -> bool:
        """Whether nothing happens until its owner does something: its tag is wrong, or it failed too often."""
        return self.word in _STUCK


def find_trainings(config: Config, standing: Standing) -> list[ListedTraining]:
    """The trainings and fillers that Slurm shows, oldest first, with what the daemon found at its last look."""
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    snapshot = gateway.snapshot()
    lent: defaultdict[str, set[str]] = defaultdict(set)
    for job, trainer in jobs_of_trainers(snapshot, config.slurm.queue, launcher_of(config, gateway)):
        if job.state is JobState.RUNNING:
            lent[trainer] |= job.nodes
    needs = needs_of(config)
    return [
        _training(submission, lent.get(submission.id, set()), standing, needs)
        for submission in find_submissions(snapshot.jobs, config.slurm.queue).values()
    ]


def state_word(state: str, lent: Collection[str], asked: Collection[str]) -> str:
    """State of a training in a word; ``state`` is the daemon's :class:`TrainerState` of it."""
    if lent:
        return RUNNING
    if state != TrainerState.ACTIVE:
        return state
    return STARTING if asked else WAITING


def _trainer_state(submission: Submission, known: TrainerStatus | None, standing: Standing) -> TrainerState:
    if isinstance(submission.tag, WrongTag):
        return TrainerState.REFUSED
    # While a daemon is at work it may take up again what has ended.
    if submission.is_over and not (known and standing.is_at_work):
        return TrainerState.COMPLETE
    return TrainerState(known.state) if known else TrainerState.ACTIVE


def _training(submission: Submission, lent: set[str], standing: Standing, needs: Sequence[Need]) -> ListedTraining:
    tag, known = submission.good_tag, standing.trainers.get(submission.id)
    asked = expand_nodes(known.asked) - lent if known and standing.is_at_work else frozenset()
    _, largest_task = (tag and tag.task_nodes) or (1, 1)
    return ListedTraining(
        id=submission.id,
        user=submission.owner,
        account=submission.account,
        word=state_word(_trainer_state(submission, known, standing), lent, asked),
        nodes=sorted(lent),
        asked_nodes=sorted(asked),
        max_nodes=(tag.max_nodes or largest_task * len(submission.tasks)) if tag else None,
        state=_state(submission, known, standing, len(lent), len(asked)),
        **facts_of(tag, known, needs),
    )


def facts_of(tag: Tag | None, known: TrainerStatus | None, needs: Sequence[Need]) -> dict[str, Any]:
    """Fields of a listed training that follow from its tag and its published status alone; None: not known."""
    return {
        "name": tag.name if tag else "",
        "min_nodes": tag.min_nodes if tag else None,
        "task_nodes": tag.task_nodes if tag else None,
        "lacks": lacks(needs, tag) if tag else "",
        "samples": known.samples_done if known else None,
        "ends": dict(known.ends) if known else None,
        "costs": dict(known.costs) if known else None,
        "speeds": dict(known.speeds) if known else None,
        "fault": known.fault if known else "",
    }


def _state(submission: Submission, known: TrainerStatus | None, standing: Standing, lent: int, asked: int) -> str:
    """State in a word or a sentence, by the first that applies: tag, end, what the daemon publishes, nodes."""
    tag = submission.tag
    if isinstance(tag, WrongTag):
        return f"refused: {tag.why}"
    if asked_to_resume(submission.comment):
        return "was asked to go on, which the daemon sees at its next look"
    if answer_in(submission.comment) or submission.is_over:
        return answer_in(submission.comment) or "over"
    trouble = standing.trouble_of(known) if known is not None and standing.is_at_work else ""
    if trouble and trouble != UNKNOWN_END:
        return trouble
    speeds = f"; {speeds_in_tag(known.speeds)}" if known and known.speeds else ""
    now = f"{_now(known, standing, lent, asked)}{speeds}"
    if tag.is_filler:
        return f"{now}{_done(known)}"
    return f"{now}; {UNKNOWN_END}" if _cannot_tell_end(submission, known) else now


def _now(known: TrainerStatus | None, standing: Standing, lent: int, asked: int) -> str:
    if lent:
        return "running" if standing.is_at_work else "running; no daemon is at work"
    return f"waits for Slurm to start it on {asked} nodes" if asked else standing.waiting_text(known)


def speeds_in_tag(speeds: Mapping[str, float]) -> str:
    """Speeds that a training is taken to have by kind of node, as its tag would have them."""
    return f"speed={'/'.join(f'{kind}:{speed:g}' for kind, speed in speeds.items())}"


def _done(known: TrainerStatus | None) -> str:
    ends = known.ends if known else {}
    counts = ((ends.get(str(end), 0), str(end)) for end in (End.COMPLETED, End.FAILED))
    text = " and ".join(f"{count} {word}" for count, word in counts if count)
    return f"; of its tasks {text}" if text else ""


def _cannot_tell_end(submission: Submission, known: TrainerStatus | None) -> bool:
    """Whether tasks of a training that shows no sign of the runtime have completed, as far as is known."""
    if known is not None:
        return known.note == UNKNOWN_END
    some_completed = any(task.state is JobState.COMPLETED for task in submission.tasks)
    return some_completed and isinstance(submission.tag, Tag) and submission.tag.directory is None
