"""Trainings: the daemon's one record of each, and what follows from how its fragments ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.known_trainer import PAUSE_NOTE, KnownTrainer, TrainerState
from freetrain.lending.causes import goes_well
from freetrain.lending.rules import Share
from freetrain.slurm.comments import asked_to_resume, says_paused, with_answer, without_answer
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import Tag

# All failures on one node may be the node's: so many more are waited for until the owner is asked to look.
_MORE_ON_ONE_NODE = 3


@dataclass(frozen=True, slots=True)
class Patience:
    """Answer to failures: a rest that doubles with each more, and a pause after so many in a row."""

    back_off_s: float
    failures_to_pause: int


def after_ends(
    trainer: KnownTrainer,
    ended: Iterable[Fragment],
    patience: Patience,
    now_s: float,
    fragments: Iterable[Fragment] = (),
    failed_on: Collection[str] = (),
) -> KnownTrainer:
    """The trainer after these fragments ended: only failures of its own program count against it."""
    ended = list(ended)
    failures = trainer.failures_in_a_row
    failed = {fragment.node for fragment in ended if fragment.end is End.FAILED}
    # A program that fails on one node while it goes well on another is not at fault: the pair is
    # (``lending/causes.py``).
    if failed and any(fragment.node not in failed and goes_well(fragment, now_s) for fragment in fragments):
        return trainer
    if failed:
        # However many fragments ended together: it is one program.
        failures += 1
    elif any((run.ended_s or now_s) - (run.started_s or inf) > patience.back_off_s for run in ended):
        failures = 0
    if failures == trainer.failures_in_a_row or trainer.state in (TrainerState.REFUSED, TrainerState.COMPLETE):
        return trainer
    if failures == 0:
        return replace(trainer, failures_in_a_row=0)
    is_everywhere = len({*failed_on, *failed}) > 1 or failures >= patience.failures_to_pause + _MORE_ON_ONE_NODE
    if failures >= patience.failures_to_pause and is_everywhere:
        note = f"{PAUSE_NOTE} {failures} failures in a row: see its output, then run freetrain resume {trainer.id}"
        return replace(trainer, failures_in_a_row=failures, state=TrainerState.PAUSED, note=note)
    return resting(trainer, patience, now_s, f"{failures} failures in a row")


def resting(
    trainer: KnownTrainer, patience: Patience, now_s: float, why: str, longest: float = inf
) -> KnownTrainer:
    """The trainer, left alone twice as long after each failure more, ``longest`` times the first rest at most."""
    failures = trainer.failures_in_a_row + 1
    rest_s = patience.back_off_s * min(2 ** (failures - 1), longest)
    return replace(
        trainer,
        state=TrainerState.RESTING,
        failures_in_a_row=failures,
        rests_until_s=now_s + rest_s,
        note=f"{why}; rests for {rest_s:.0f} s",
    )


def awake(trainer: KnownTrainer, now_s: float) -> KnownTrainer:
    """The trainer, active again if its rest is over."""
    if trainer.state is TrainerState.RESTING and now_s >= trainer.rests_until_s:
        return replace(trainer, state=TrainerState.ACTIVE, note="")
    return trainer


def resumed(trainer: KnownTrainer) -> KnownTrainer:
    """The trainer, its failures forgotten: its owner has seen to them."""
    if trainer.state not in (TrainerState.PAUSED, TrainerState.RESTING):
        return replace(trainer, failures_in_a_row=0)
    return replace(trainer, state=TrainerState.ACTIVE, note="", failures_in_a_row=0, rests_until_s=0.0)


def is_complete(
    trainer: KnownTrainer,
    fragments: Sequence[Fragment],
    last: Fragment | None,
    finished: bool | None,
    target: float,
    nothing_unrun: bool,
) -> bool:
    """Whether the training is done; ``finished`` is what its directory says, None: it cannot be read."""
    if finished is not None or trainer.samples_done >= target:
        return bool(finished) or trainer.samples_done >= target
    # Ends of fragments say so only where the training cannot, and where nothing would be lost: the other tasks of
    # an array that is not an elastic training have work of their own.
    return nothing_unrun and not fragments and last is not None and last.end is End.COMPLETED


def is_finishing(fragments: Sequence[Fragment], last: Fragment | None) -> bool:
    """Whether one fragment ended well since the others started: they will follow, and nobody should join."""
    if not fragments or last is None or last.end is not End.COMPLETED or last.ended_s is None:
        return False
    return all(fragment.started_s is not None and fragment.started_s < last.ended_s for fragment in fragments)


@dataclass(slots=True)
class TrainerRuns:
    """Record of the earlier fragments of a trainer.

    Attributes:
        ends: way to end → number of fragments; those of a job of several nodes end together, once.
        last: the one that ended last.
        some_completed: whether one has completed.
        failed: job → its runs that ended with an error.
        preempted_s: job of which the last run was preempted → when that run started.
    """

    ends: Counter[End] = field(default_factory=Counter)
    last: Fragment | None = None
    some_completed: bool = False
    failed: dict[str, list[Fragment]] = field(default_factory=dict)
    preempted_s: dict[str, float | None] = field(default_factory=dict)

    def note_end(self, fragment: Fragment) -> None:
        """Note a fragment that has ended after the others."""
        self.last = fragment
        self.some_completed |= fragment.end is End.COMPLETED
        if fragment.end is End.FAILED:
            self.note_failure(fragment)
        if fragment.end is End.PREEMPTED:
            self.preempted_s[fragment.job] = fragment.started_s
        else:
            self.preempted_s.pop(fragment.job, None)

    def note_failure(self, fragment: Fragment) -> None:
        """Note a failure; a job of several nodes fails once, with all of its fragments."""
        runs = self.failed.setdefault(fragment.job, [])
        if all(run.started_s != fragment.started_s for run in runs):
            runs.append(fragment)


@dataclass(frozen=True, slots=True)
class Training:
    """A training: what its owner wants, what was learned of it, and what it has.

    Attributes:
        trainer: what is remembered of it from look to look.
        submission: its jobs in Slurm.
        tag: what its owner wants; None: nothing that can be understood.
        runs: record of its earlier fragments.
        is_elastic: whether it is an elastic training for certain: it says of itself that it goes on.
    """

    trainer: KnownTrainer
    submission: Submission
    tag: Tag | None
    runs: TrainerRuns
    is_elastic: bool = False

    @property
    def id(self) -> str:
        """Id of its array, or of the job that is its pattern."""
        return self.submission.id

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Fragments of it that have not ended."""
        return self.submission.fragments

    @property
    def is_active(self) -> bool:
        """Whether it may grow."""
        return self.trainer.state is TrainerState.ACTIVE

    @property
    def competes(self) -> bool:
        """Whether it may have nodes; one that rests keeps those on which it runs, and is asked for no others."""
        return self.is_active or (self.trainer.state is TrainerState.RESTING and self.running_count > 0)

    @property
    def running_count(self) -> int:
        """Number of its fragments that Slurm has started."""
        return sum(fragment.state is FragmentState.RUNNING for fragment in self.fragments)

    @property
    def last_completed(self) -> bool:
        """Whether the fragment that ended last ended by itself, well, and others of the training go on."""
        return self.is_elastic and is_finishing(self.fragments, self.runs.last)

    @property
    def comment(self) -> str:
        """Comment that it should have: with what its owner has to know, without what is not so any more."""
        comment = self.submission.comment
        if self.trainer.state in (TrainerState.REFUSED, TrainerState.PAUSED):
            return with_answer(comment, self.trainer.note)
        return without_answer(comment) if says_paused(comment) or asked_to_resume(comment) else comment

    def in_state(self, state: TrainerState) -> Training:
        """The training in this state, which needs no explanation."""
        return replace(self, trainer=replace(self.trainer, state=state, note=""))

    def with_fault(self, fault: str) -> Training:
        """The training with this fault."""
        return replace(self, trainer=replace(self.trainer, fault=fault))


@dataclass(frozen=True, slots=True)
class RosterRules:
    """Rules by which trainers are dealt with.

    Attributes:
        runs_tasks: whether fragments are the submissions' own tasks.
        start_within_s: how long Slurm may take to start a fragment.
        default_memory_mb: what Slurm gives a job that asks for no memory, where the partition says nothing.
        shares_out_memory: whether Slurm shares a node's memory out among its jobs.
        freezers: names of those that the site has.
    """

    runs_tasks: bool
    patience: Patience
    start_within_s: float
    queue: FragmentQueue
    objective: str
    default_memory_mb: int = 0
    shares_out_memory: bool = True
    share: Share = Share.WHOLE
    freezers: frozenset[str] = frozenset()
