"""Trainings: the daemon's one record of each, and what a look finds out about all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.node import Node
from freetrain.daemon.trainers.ends import Patience, is_finishing
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.lending.rules import Share
from freetrain.slurm.comments import asked_to_resume, says_paused, with_answer, without_answer
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import Tag


@dataclass(frozen=True, slots=True)
class Training:
    """A training: what its owner wants, what was learned of it, and what it has.

    Attributes:
        trainer: what is remembered of it.
        submission: what stands for it in Slurm.
        tag: what its owner wants; None: nothing that can be understood.
        fragments: its open ones.
        last: the one that ended last.
        is_elastic: whether it is an elastic training for certain: it says of itself that it goes on.
        some_completed: whether a fragment of it has completed.
        failed_runs: task of it → those of its runs that ended with an error.
    """

    trainer: KnownTrainer
    submission: Submission
    tag: Tag | None
    fragments: tuple[Fragment, ...]
    last: Fragment | None
    is_elastic: bool = False
    some_completed: bool = False
    failed_runs: Mapping[str, Sequence[Fragment]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Of its array, or of the job that is its pattern."""
        return self.submission.id

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
        """How many of its fragments Slurm has started."""
        return sum(fragment.state is FragmentState.RUNNING for fragment in self.fragments)

    @property
    def last_completed(self) -> bool:
        """Whether the fragment that ended last ended by itself, well, and others of the training go on."""
        return self.is_elastic and is_finishing(self.fragments, self.last)

    @property
    def comment(self) -> str:
        """What its comment should be: with what its owner has to know, without what is not so any more."""
        comment = self.submission.comment
        if self.trainer.state in (TrainerState.REFUSED, TrainerState.PAUSED):
            return with_answer(comment, self.trainer.note)
        return without_answer(comment) if says_paused(comment) or asked_to_resume(comment) else comment

    def in_state(self, state: TrainerState) -> Training:
        """The same in a state that needs no explanation."""
        return replace(self, trainer=replace(self.trainer, state=state, note=""))

    def with_fault(self, fault: str) -> Training:
        """The same, with something wrong with it."""
        return replace(self, trainer=replace(self.trainer, fault=fault))


@dataclass(frozen=True, slots=True)
class FragmentHistory:
    """What is known of fragments that have ended.

    Attributes:
        last: trainer → the one that ended last.
        some_completed: trainers of which one has completed.
        failed_runs: trainer → job → its runs that ended with an error.
    """

    last: Mapping[str, Fragment]
    some_completed: Collection[str] = ()
    failed_runs: Mapping[str, Mapping[str, Sequence[Fragment]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RosterInputs:
    """What a look found out, and what was known before, about all trainers.

    Attributes:
        time_s: of the look, UTC epoch seconds.
        known: trainers met before, by id.
        unfit: submissions that cannot be trainers → why.
        fragments: trainer → its open ones.
        ended: those that ended since the last look.
        past: what is known of those that have ended.
        reports: trainer → what its directory says.
        answered: trainers whose owner has been informed that they are paused.
        nodes: all, by name.
        jobs: all, by id.
    """

    time_s: float
    known: Mapping[str, KnownTrainer]
    unfit: Mapping[str, str]
    fragments: Mapping[str, tuple[Fragment, ...]]
    ended: Sequence[Fragment]
    past: FragmentHistory
    reports: Mapping[str, Report]
    answered: Collection[str]
    nodes: Mapping[str, Node]
    jobs: Mapping[str, Job] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RosterRules:
    """How trainers are dealt with.

    Attributes:
        runs_tasks: whether fragments are the submissions' own tasks.
        patience: how failures are answered.
        start_within_s: how long Slurm may take to start a fragment.
        queue: where fragments wait and run.
        objective: name of what is maximised.
        default_memory_mb: what Slurm gives a job that asks for no memory, where the partition says nothing.
        shares_out_memory: whether Slurm shares a node's memory out among its jobs.
        share: how much of a node is lent at once.
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
