"""The roster: all trainers, kept up to date with what users hand in and with what happens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from freetrain.core.fragment import End, Fragment
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
from freetrain.core.trainer import Trainer
from freetrain.daemon.progress import Report
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import ANSWER, Tag, WrongTag, parse_tag

_KEPT_OBSERVATIONS = 200
_OWN_LIMITS = re.compile(r"Assoc|QOS|MaxJob|MaxNode|MaxMem|MaxCpu|JobArrayTaskLimit|AccountNot|InvalidAccount")
"""Reasons why Slurm does not start a trainer's fragments wherever they are."""
_IMPOSSIBLE = "BadConstraints"
"""Slurm's reason where a task asks for what its node does not have, in a way that freetrain does not see."""
_LONGEST_REST = 2**10


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
        tag = parse_tag(submission.comment)
        own = tuple(one for one in fragments if one.trainer == submission.id)
        trainer = _with_tag(trainer, submission, unfit.get(submission.id, ""), tag, answered)
        trainer = _with_report(trainer, reports.get(submission.id))
        trainer = after_ends(trainer, [one for one in ended if one.trainer == submission.id], patience, now_s)
        late = {one.job for one in own if one.waits_since_before(now_s - start_within_s)}
        trainer = awake(_after_waiting_in_vain(trainer, late, submission, patience, now_s), now_s)
        refused = {one.job: one.node for one in ended if one.end is End.NEVER_STARTED}
        trainer = _after_refusals(trainer, refused, submission, patience, now_s)
        entry = Entry(trainer, submission, tag if isinstance(tag, Tag) else None, own, last.get(submission.id))
        entries.append(_completed(entry, reports.get(submission.id)))
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
        if entry.last_completed or not entry.is_active:
            most_nodes = max(len(entry.fragments), tag.min_nodes)
        if most_nodes >= tag.min_nodes:
            curve = curve_of(entry.trainer, tag.curve, most_nodes)
            costs_s = (tag.grow_s, tag.shrink_s, tag.start_s)
            trainer = as_trainer(entry.trainer, curve, tag.min_nodes, most_nodes, costs_s, tag.weight)
            found.append((entry, trainer))
    return found


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


def _after_refusals(
    trainer: LentTrainer, refused: Mapping[str, str], submission: Submission, patience: Patience, now_s: float
) -> LentTrainer:
    """Let a trainer rest that Slurm finds unable to run where it was lent a node; the node is as good as before.

    Args:
        trainer: whose fragments.
        refused: its jobs that ended before they ran → the node that each was to have.
        submission: it, as Slurm shows it now.
        patience: how failures are answered.
        now_s: UTC epoch seconds.
    """
    nodes = [refused[task.id] for task in submission.tasks if task.id in refused and task.reason == _IMPOSSIBLE]
    if not nodes or trainer.state is not TrainerState.ACTIVE:
        return trainer
    failures = trainer.failures_in_a_row + 1
    rest_s = patience.back_off_s * min(2 ** (failures - 1), _LONGEST_REST)
    note = f"Slurm finds no way to run it on {nodes[0]} ({_IMPOSSIBLE}); rests for {rest_s:.0f} s"
    state = TrainerState.RESTING
    return replace(trainer, state=state, failures_in_a_row=failures, rests_until_s=now_s + rest_s, note=note)


def _completed(entry: Entry, report: Report | None) -> Entry:
    target = entry.tag.target_samples if entry.tag and entry.tag.target_samples else math.inf
    finished = report.finished if report else None
    if not is_complete(entry.trainer, entry.fragments, entry.last, finished, target):
        return entry
    return replace(entry, trainer=replace(entry.trainer, state=TrainerState.COMPLETE, note=""))
