"""The roster: all trainers, kept up to date with what users hand in and with what happens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from freetrain.core.fragment import Fragment
from freetrain.core.lent_trainer import (
    LentTrainer,
    Patience,
    TrainerState,
    after_ends,
    as_trainer,
    awake,
    curve_of,
    is_complete,
    is_finishing,
)
from freetrain.core.objectives import find_objective
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.isolation import Fault, isolated
from freetrain.daemon.progress import Report
from freetrain.errors import InputError
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import ANSWER, Tag, WrongTag, parse_tag

_KEPT_OBSERVATIONS = 200
_MOST_WORTH = 1e30
"""Sums of what is worth less stay far from the largest number."""
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
    """

    trainer: LentTrainer
    submission: Submission
    tag: Tag | None
    fragments: tuple[Fragment, ...]
    last: Fragment | None

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
        """Whether the fragment that ended last ended by itself, well, and others go on."""
        return is_finishing(self.fragments, self.last)

    @property
    def unanswered(self) -> str:
        """What its owner still has to be told in the comment; nothing: empty."""
        wants_answer = self.trainer.state in (TrainerState.REFUSED, TrainerState.PAUSED)
        return self.trainer.note if wants_answer and ANSWER not in self.submission.comment else ""


def call_roll(
    known: Mapping[str, LentTrainer],
    submissions: Mapping[str, Submission],
    unfit: Mapping[str, str],
    fragments: Iterable[Fragment],
    ended: Sequence[Fragment],
    last: Mapping[str, Fragment],
    reports: Mapping[str, Report],
    answered: frozenset[str],
    patience: Patience,
    start_within_s: float,
    now_s: float,
) -> list[Entry]:
    """Every submission as a trainer, in the order of submission.

    One that cannot be dealt with has a fault, and no tag.

    Args:
        known: trainers met before.
        submissions: by id.
        unfit: those that cannot be trainers → why.
        fragments: all open ones.
        ended: those that ended since the last time.
        last: trainer → its fragment that ended last.
        reports: trainer → what its directory says.
        answered: paused trainers whose owner has been told.
        patience: how failures are answered.
        start_within_s: how long Slurm may take to start a fragment.
        now_s: UTC epoch seconds.
    """
    entries = []
    for submission in submissions.values():
        trainer = known.get(submission.id) or LentTrainer(
            submission.id, submission.owner, submission.comment, TrainerState.ACTIVE, now_s
        )
        own = tuple(one for one in fragments if one.trainer == submission.id)
        plain = Entry(trainer, submission, None, own, last.get(submission.id))
        gone = [one for one in ended if one.trainer == submission.id]
        why_unfit, report = unfit.get(submission.id, ""), reports.get(submission.id)
        entry = isolated(
            partial(_updated, plain, gone, why_unfit, report, answered, patience, start_within_s, now_s)
        )
        entries.append(with_fault(plain, entry.what) if isinstance(entry, Fault) else entry)
    return entries


def with_fault(entry: Entry, fault: str) -> Entry:
    """The entry, with something wrong with it."""
    return replace(entry, trainer=replace(entry.trainer, fault=fault))


def competitors(
    entries: Iterable[Entry], rooms: Mapping[str, int], most: int, objective: str
) -> tuple[list[tuple[Entry, Trainer]], Mapping[str, str]]:
    """The first ``most`` trainers that may have nodes, as a policy sees them; those that cannot compete → why.

    Args:
        entries: all.
        rooms: trainer → most nodes it could have.
        most: how many may compete.
        objective: name of what is maximised.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    found, faults = [], {}
    for entry in [one for one in entries if one.competes and one.tag is not None][:most]:
        trainer = isolated(partial(_competitor, entry, rooms[entry.trainer.id], objective))
        if isinstance(trainer, Fault):
            faults[entry.trainer.id] = trainer.what
        elif trainer is not None:
            found.append((entry, trainer))
    return found, faults


def _competitor(entry: Entry, room: int, objective: str) -> Trainer | None:
    """The trainer as a policy sees it; None: there is no room for its minimum."""
    tag = entry.tag
    assert tag is not None
    most_nodes = min(tag.max_nodes or room, room)
    if entry.last_completed or not entry.is_active:
        most_nodes = min(max(len(entry.fragments), tag.min_nodes), room)
    if most_nodes < tag.min_nodes:
        return None
    curve = curve_of(entry.trainer, tag.curve, most_nodes)
    costs_s = (tag.grow_s, tag.shrink_s, tag.start_s)
    trainer = as_trainer(entry.trainer, curve, tag.min_nodes, most_nodes, costs_s, tag.weight)
    terms = terms_of((trainer,), objective)
    if not float(np.abs(terms.worth).max()) * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")
    return trainer


def _updated(
    entry: Entry,
    ended: Sequence[Fragment],
    unfit: str,
    report: Report | None,
    answered: frozenset[str],
    patience: Patience,
    start_within_s: float,
    now_s: float,
) -> Entry:
    """The entry with its tag, and its trainer after all that has happened."""
    submission = entry.submission
    tag = parse_tag(submission.comment)
    trainer = _with_tag(entry.trainer, submission, unfit, tag, answered)
    trainer = _with_report(trainer, report)
    trainer = after_ends(trainer, ended, patience, now_s)
    late = {one.job for one in entry.fragments if one.waits_since_before(now_s - start_within_s)}
    trainer = awake(_after_waiting_in_vain(trainer, late, submission, patience, now_s), now_s)
    return _completed(replace(entry, trainer=trainer, tag=tag if isinstance(tag, Tag) else None), report)


def _with_tag(
    trainer: LentTrainer, submission: Submission, unfit: str, tag: Tag | WrongTag | None, answered: frozenset[str]
) -> LentTrainer:
    if trainer.state is TrainerState.COMPLETE:
        return trainer
    trainer = replace(trainer, tag=submission.comment)
    wrong = tag.why if isinstance(tag, WrongTag) else unfit
    if wrong:
        return replace(trainer, state=TrainerState.REFUSED, note=wrong)
    # Whoever takes the answer out of the comment has read it.
    forgiven = trainer.id in answered and ANSWER not in submission.comment
    if trainer.state is TrainerState.REFUSED or (trainer.state is TrainerState.PAUSED and forgiven):
        return replace(trainer, state=TrainerState.ACTIVE, note="", failures_in_a_row=0)
    return trainer


def _with_report(trainer: LentTrainer, report: Report | None) -> LentTrainer:
    """The trainer after what its directory says; a fault lasts as long as its cause."""
    if report is not None and report.offset_bytes != trainer.progress_bytes:
        trainer = replace(
            trainer,
            samples_done=report.samples_done or trainer.samples_done,
            progress_bytes=report.offset_bytes,
            observations=(*trainer.observations, *report.observations)[-_KEPT_OBSERVATIONS:],
            misread=trainer.misread.and_then(report.misread),
        )
    return replace(trainer, fault=(report.fault if report else "") or str(trainer.misread))


def _after_waiting_in_vain(
    trainer: LentTrainer, late: set[str], submission: Submission, patience: Patience, now_s: float
) -> LentTrainer:
    """Let a trainer rest for whose fragments a limit of its owner's leaves no room."""
    reasons = [task.reason for task in submission.tasks if task.id in late and _OWN_LIMITS.search(task.reason)]
    if not reasons or trainer.state is not TrainerState.ACTIVE:
        return trainer
    note = f"Slurm does not start its fragments ({reasons[0]}); rests for {patience.back_off_s:.0f} s"
    return replace(trainer, state=TrainerState.RESTING, rests_until_s=now_s + patience.back_off_s, note=note)


def _completed(entry: Entry, report: Report | None) -> Entry:
    target = entry.tag.target_samples if entry.tag and entry.tag.target_samples else math.inf
    finished = report.finished if report else None
    if not is_complete(entry.trainer, entry.fragments, entry.last, finished, target):
        return entry
    return replace(entry, trainer=replace(entry.trainer, state=TrainerState.COMPLETE, note=""))
