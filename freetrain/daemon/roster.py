"""The roster: all trainers, kept up to date with what users hand in and with what happens."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from freetrain.core.cluster import JobState
from freetrain.core.fragment import Fragment
from freetrain.core.lent_trainer import (
    UNKNOWN_END,
    LentTrainer,
    Patience,
    TrainerState,
    after_ends,
    as_trainer,
    awake,
    curve_of,
    is_complete,
    is_finishing,
    resumed,
)
from freetrain.core.trainer import Trainer
from freetrain.daemon.progress import Report
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import (
    Tag,
    WrongTag,
    asked_to_resume,
    parse_tag,
    says_paused,
    with_answer,
    without_answer,
)

_KEPT_OBSERVATIONS = 200
_GOING_ON = (TrainerState.ACTIVE, TrainerState.RESTING, TrainerState.PAUSED)
_OWN_LIMITS = re.compile(r"Assoc|QOS|MaxJob|MaxNode|MaxMem|MaxCpu|JobArrayTaskLimit|AccountNot|InvalidAccount")
"""Reasons why Slurm does not start a trainer's fragments wherever they are."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A trainer with what its owner wants.

    Attributes:
        trainer: what is remembered of it.
        submission: what stands for it in Slurm.
        tag: what its owner wants; None: nothing that can be understood.
        fragments: its open ones.
        last: the one that ended last.
        is_elastic: whether it is an elastic training for certain: it says of itself that it goes on.
        some_completed: whether a fragment of it has completed.
    """

    trainer: LentTrainer
    submission: Submission
    tag: Tag | None
    fragments: tuple[Fragment, ...]
    last: Fragment | None
    is_elastic: bool = False
    some_completed: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it may grow."""
        return self.trainer.state is TrainerState.ACTIVE

    @property
    def competes(self) -> bool:
        """Whether it may have nodes; one that rests keeps those on which it goes on."""
        return self.is_active or (self.trainer.state is TrainerState.RESTING and bool(self.fragments))

    @property
    def last_completed(self) -> bool:
        """Whether the fragment that ended last ended by itself, well, and others of the training go on."""
        return self.is_elastic and is_finishing(self.fragments, self.last)

    @property
    def goes_on(self) -> bool:
        """Whether what has ended of it is needed again, now or later."""
        return self.trainer.state in _GOING_ON and not self.last_completed

    @property
    def is_drained(self) -> bool:
        """Whether its tasks complete one by one: in the end fewer may be left than it asks for at least."""
        return self.some_completed and not self.is_elastic

    @property
    def comment(self) -> str:
        """What its comment should be: with what its owner has to be told, without what is not so any more."""
        comment = self.submission.comment
        if self.trainer.state in (TrainerState.REFUSED, TrainerState.PAUSED):
            return with_answer(comment, self.trainer.note)
        return without_answer(comment) if says_paused(comment) or asked_to_resume(comment) else comment


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of fragments that have ended.

    Attributes:
        last: trainer → the one that ended last.
        some_completed: trainers of which one has completed.
    """

    last: Mapping[str, Fragment]
    some_completed: Collection[str] = ()


def call_roll(
    known: Mapping[str, LentTrainer],
    submissions: Mapping[str, Submission],
    unfit: Mapping[str, str],
    fragments: Iterable[Fragment],
    ended: Sequence[Fragment],
    past: Past,
    reports: Mapping[str, Report],
    answered: Collection[str],
    runs_tasks: bool,
    patience: Patience,
    start_within_s: float,
    now_s: float,
) -> list[Entry]:
    """Every submission as a trainer, in the order of submission.

    Args:
        known: trainers met before.
        submissions: by id.
        unfit: those that cannot be trainers → why.
        fragments: all open ones.
        ended: those that ended since the last time.
        past: what is known of those that have ended.
        reports: trainer → what its directory says.
        answered: trainers whose owner has been told that they are paused.
        runs_tasks: whether fragments are the submissions' own tasks.
        patience: how failures are answered.
        start_within_s: how long Slurm may take to start a fragment.
        now_s: UTC epoch seconds.
    """
    entries = []
    for submission in submissions.values():
        trainer = known.get(submission.id) or LentTrainer(
            submission.id, submission.owner, submission.comment, TrainerState.ACTIVE, now_s
        )
        tag = parse_tag(submission.comment)
        own = tuple(one for one in fragments if one.trainer == submission.id)
        trainer = _with_tag(trainer, submission, unfit.get(submission.id, ""), tag, answered)
        trainer = _with_report(trainer, reports.get(submission.id))
        trainer = after_ends(trainer, [one for one in ended if one.trainer == submission.id], patience, now_s)
        late = {one.job for one in own if one.waits_since_before(now_s - start_within_s)}
        trainer = awake(_after_waiting_in_vain(trainer, late, submission, patience, now_s), now_s)
        report = reports.get(submission.id)
        entry = Entry(
            trainer,
            submission,
            tag if isinstance(tag, Tag) else None,
            own,
            past.last.get(submission.id),
            # A copy of a pattern has no work of its own.
            is_elastic=not runs_tasks or (report is not None and report.finished is not None),
            some_completed=submission.id in past.some_completed,
        )
        entries.append(_with_end(_completed(entry, report, runs_tasks)))
    return entries


def competitors(entries: Iterable[Entry], rooms: Mapping[str, int], most: int) -> list[tuple[Entry, Trainer]]:
    """The first ``most`` trainers that may have nodes, as a policy sees them.

    Args:
        entries: all.
        rooms: trainer → most nodes it could have.
        most: how many may compete.
    """
    active = [(entry, entry.tag) for entry in entries if entry.competes and entry.tag is not None]
    found = []
    for entry, tag in active[:most]:
        most_nodes = min(tag.max_nodes or rooms[entry.trainer.id], rooms[entry.trainer.id])
        min_nodes = min(tag.min_nodes, max(most_nodes, 1)) if entry.is_drained else tag.min_nodes
        if entry.last_completed or not entry.is_active:
            most_nodes = max(len(entry.fragments), min_nodes)
        if most_nodes >= min_nodes:
            curve = curve_of(entry.trainer, tag.curve, most_nodes)
            costs_s = (tag.grow_s, tag.shrink_s, tag.start_s)
            trainer = as_trainer(entry.trainer, curve, min_nodes, most_nodes, costs_s, tag.weight)
            found.append((entry, trainer))
    return found


def _with_tag(
    trainer: LentTrainer, submission: Submission, unfit: str, tag: Tag | WrongTag | None, answered: Collection[str]
) -> LentTrainer:
    if trainer.state is TrainerState.COMPLETE:
        return trainer
    trainer, before = replace(trainer, tag=submission.comment), trainer
    wrong = tag.why if isinstance(tag, WrongTag) else unfit
    if wrong:
        return replace(trainer, state=TrainerState.REFUSED, note=wrong)
    if trainer.state is TrainerState.REFUSED:
        return replace(trainer, state=TrainerState.ACTIVE, note="", failures_in_a_row=0)
    return resumed(trainer) if _is_resumed(before, submission.comment, answered) else trainer


def _is_resumed(trainer: LentTrainer, comment: str, answered: Collection[str]) -> bool:
    """Whether its owner wants it to go on: he asks for it, or has taken the answer out of the comment himself."""
    asked = asked_to_resume(comment)
    if asked:
        return asked != asked_to_resume(trainer.tag)
    was_told = says_paused(trainer.tag) or trainer.id in answered
    return trainer.state is TrainerState.PAUSED and was_told and not says_paused(comment)


def _with_report(trainer: LentTrainer, report: Report | None) -> LentTrainer:
    if report is None or report.offset_bytes == trainer.progress_bytes:
        return trainer
    return replace(
        trainer,
        samples_done=report.samples_done or trainer.samples_done,
        progress_bytes=report.offset_bytes,
        observations=(*trainer.observations, *report.observations)[-_KEPT_OBSERVATIONS:],
    )


def _after_waiting_in_vain(
    trainer: LentTrainer, late: set[str], submission: Submission, patience: Patience, now_s: float
) -> LentTrainer:
    """Let a trainer rest for whose fragments a limit of its owner's leaves no room."""
    reasons = [task.reason for task in submission.tasks if task.id in late and _OWN_LIMITS.search(task.reason)]
    if not reasons or trainer.state is not TrainerState.ACTIVE:
        return trainer
    note = f"Slurm does not start its fragments ({reasons[0]}); rests for {patience.back_off_s:.0f} s"
    return replace(trainer, state=TrainerState.RESTING, rests_until_s=now_s + patience.back_off_s, note=note)


def _with_end(entry: Entry) -> Entry:
    """Say of a training that goes on whether it will be known when it ends."""
    note = entry.trainer.note
    if not entry.is_active or (note and note != UNKNOWN_END):
        return entry
    return replace(entry, trainer=replace(entry.trainer, note=UNKNOWN_END if entry.is_drained else ""))


def _completed(entry: Entry, report: Report | None, runs_tasks: bool) -> Entry:
    target = entry.tag.target_samples if entry.tag and entry.tag.target_samples else math.inf
    finished = report.finished if report else None
    nothing_unrun = not runs_tasks or all(task.state is JobState.COMPLETED for task in entry.submission.tasks)
    if not is_complete(entry.trainer, entry.fragments, entry.last, finished, target, nothing_unrun):
        return entry
    return replace(entry, trainer=replace(entry.trainer, state=TrainerState.COMPLETE, note=""))
