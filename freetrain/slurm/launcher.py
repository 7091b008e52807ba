"""Interface of all launchers, which make fragments of what users submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.core.node import Node
from freetrain.slurm.commands import Command
from freetrain.slurm.submissions import Submission


@dataclass(frozen=True, slots=True)
class Order:
    """A command for Slurm, with its standard input.

    Attributes:
        why: reason for the audit.
    """

    command: Command
    why: str
    stdin: str = ""


class Launcher(Protocol):
    """Maker of fragments, which also ends them. Its callers carry out its orders, and keep its fragments."""

    runs_tasks: bool
    """Whether fragments are the submission's own tasks, each of which may have work of its own."""

    def why_not(self, submission: Submission, some_completed: bool = False) -> str:
        """Reason why it cannot be a trainer, as a sentence for its owner; empty: it can."""

    def why_not_yet(self, submission: Submission, now_s: float, has_run: bool) -> str:
        """Reason why it can have no more nodes yet, as a clause for its owner; empty: nothing is missing."""

    def room(self, submission: Submission) -> int:
        """Number of fragments that the submission can have at once."""

    def lend(
        self, submission: Submission, nodes: Sequence[str], limits_s: Sequence[float], now_s: float, task: str = ""
    ) -> Sequence[Fragment]:
        """The fragments that shall have these nodes, as many as there is room for; nothing is asked yet.

        A node is named once for each part of it that is lent. A task is to have all of them together; without
        one, each is for a task of its own.
        """

    def gives(self, submission: Submission, amount: Amount, asked: Amount) -> Amount:
        """Amount of a node that a fragment can be given, so far as Slurm gives it more than its task asks for."""

    def place(
        self, submission: Submission, fragment: Fragment, nodes: Sequence[Node], amount: Amount | None = None
    ) -> Order:
        """Order that ties a fragment, with those of its task on other nodes, to these nodes: its own is the first.

        The amount is given where it is more than the task asks for.
        """

    def start(self, fragments: Sequence[Fragment]) -> Sequence[Order]:
        """Orders that start these fragments, which were placed; empty: they start by themselves."""
        return ()

    def stop(self, fragments: Sequence[Fragment], why: str) -> Sequence[Order]:
        """Orders that give the nodes of these fragments back."""

    def placed(self, fragment: Fragment, printed: str) -> Fragment:
        """The fragment, as Slurm answered to the order that placed it; the same where its job was known before."""
        return fragment

    def recognise(self, fragments: Iterable[Fragment], jobs: Iterable[Job]) -> Sequence[Fragment]:
        """The fragments, those among them named whose order got no answer."""
        return list(fragments)

    def of_trainer(self, job: Job) -> str | None:
        """Trainer of which a job is a fragment; None: it is not a fragment."""

    def tidy(
        self, submission: Submission, needed_again: Callable[[Job], bool], jobs: Iterable[Job]
    ) -> Sequence[Order]:
        """Orders that bring the submission into the state that is expected between two cycles.

        Slurm forgets a task that has ended, unless it is needed again.
        """

    def end(self, submission: Submission, why: str) -> Sequence[Order]:
        """Orders that remove the submission and all that belongs to it."""


def jobs_of_trainers(snapshot: Snapshot, queue: FragmentQueue, launcher: Launcher) -> list[tuple[Job, str]]:
    """The jobs that are fragments, or may become some, each with its trainer."""
    jobs = ((job, launcher.of_trainer(job)) for job in snapshot.jobs if queue.has(job))
    return [(job, trainer) for job, trainer in jobs if trainer is not None]
