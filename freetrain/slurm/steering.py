"""The launcher that steers the users' own held array tasks: pin, release, requeue and hold again.

The jobs stay their owners', with their limits, files and accounting; the daemon needs to be Operator, or
coordinator of the account, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from freetrain.core.amounts import Amount
from freetrain.core.fragment import Fragment, FragmentState, jobs_of
from freetrain.core.job import Job
from freetrain.core.node import Node
from freetrain.slurm import commands
from freetrain.slurm.launcher import Launcher, Order
from freetrain.slurm.preconditions import Candidate, refusal, repairs, why_not_yet
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import TAG_PREFIX

# A task that is held by name takes 0.2 s at worst.
_FEW = 8


class Steering(Launcher):
    """Launcher of an array's tasks, one for each node. Pure: see :class:`freetrain.slurm.launcher.Launcher`."""

    runs_tasks = True

    def why_not(self, submission: Submission, some_completed: bool = False) -> str:
        """First precondition for which the array is refused, as a clause for its owner; empty: none."""
        return refusal(Candidate(submission, some_completed=some_completed))

    def why_not_yet(self, submission: Submission, now_s: float, has_run: bool) -> str:
        """First precondition that keeps the array from nodes for now, as a clause for its owner; empty: none."""
        return why_not_yet(Candidate(submission, now_s, has_run))

    def room(self, submission: Submission) -> int:
        """Number of its open fragments and its tasks that can start, no more than its owner lets run at once."""
        open_count = len(submission.fragments)
        room = open_count + len(submission.startable)
        return min(room, max(submission.max_running, open_count)) if submission.max_running else room

    def lend(
        self, submission: Submission, nodes: Sequence[str], limits_s: Sequence[float], now_s: float, task: str = ""
    ) -> Sequence[Fragment]:
        """Fragments: a free task for each node, or the task that is named for all of them, if it is free."""
        tasks = [job.id for job in submission.startable]
        if task:
            tasks = [task] * len(nodes) if task in tasks else []
            limits_s = [min(limits_s)] * len(nodes)
        return [
            Fragment(id_, submission.id, node, FragmentState.ASKED, now_s, limit_s)
            for id_, node, limit_s in zip(tasks, nodes, limits_s, strict=False)
        ]

    def gives(self, submission: Submission, amount: Amount, asked: Amount) -> Amount:
        """Amount to give: more CPUs for a task that asks for one, and more memory for none."""
        # To larger tasks some versions of Slurm give what they asked for, whatever an update says. Of the memory
        # that a task asked for at first Slurm keeps no other record, so that it could not be given back.
        return replace(asked, cpus=amount.cpus) if _may_have_more(submission) else asked

    def place(
        self, submission: Submission, fragment: Fragment, nodes: Sequence[Node], amount: Amount | None = None
    ) -> Order:
        """Pin the held task to its nodes; where owner and partition ask for less, let it ask for all of them."""
        needs = submission.needs
        cpus = 0 if needs.is_whole or needs.in_part else min(map(needs.usable_cpus, nodes))
        # All memory only where it asks for none: Slurm keeps no other record of what it asked for at first, and
        # the next node must have that as well.
        memory_mb = None if needs.in_part else needs.memory_mb
        if needs.in_part and _may_have_more(submission):
            # Also where it gets no more: it may have been given more the last time.
            cpus = amount.cpus if amount is not None else 1
        names = tuple(node.name for node in nodes)
        processes = needs.processes if submission.is_moldable else None
        command = commands.pin(fragment.job, names, fragment.limit_s, cpus, memory_mb, processes)
        return Order(command, f"lend {', '.join(names)} to {fragment.trainer}")

    def start(self, fragments: Sequence[Fragment]) -> Sequence[Order]:
        """Release the tasks, all at once."""
        tasks = jobs_of(fragments)
        return [Order(commands.release(*tasks), f"start {len(tasks)} fragments")] if tasks else []

    def stop(self, fragments: Sequence[Fragment], why: str) -> Sequence[Order]:
        """Hold the tasks that wait, requeue and hold those that run."""
        how = {FragmentState.ASKED: commands.hold, FragmentState.RUNNING: commands.requeue_hold_running}
        jobs = {state: jobs_of(fragment for fragment in fragments if fragment.state is state) for state in how}
        return [Order(how[state](*its), why) for state, its in jobs.items() if its]

    def of_trainer(self, job: Job) -> str | None:
        """Array that the job is a task of; None: it has no tag."""
        return job.array if job.comment.startswith(TAG_PREFIX) else None

    def tidy(
        self, submission: Submission, needed_again: Callable[[Job], bool], jobs: Iterable[Job]
    ) -> Sequence[Order]:
        """Put the array right; hold tasks without a lent node; requeue ended tasks that are needed again."""
        ours = {fragment.job for fragment in submission.fragments}
        others = [task for task in submission.tasks if task.id not in ours]
        stray = [task.id for task in others if task.state.is_waiting and not task.is_held]
        ended = [task.id for task in others if task.state.is_final and needed_again(task)]
        orders = [Order(command, why) for command, why in repairs(submission)]
        orders += _hold(submission, stray)
        if ended:
            orders.append(
                Order(commands.requeue_hold(*ended), f"{submission.id} goes on, its tasks are needed again")
            )
        return orders

    def end(self, submission: Submission, why: str) -> Sequence[Order]:
        """Cancel the array."""
        return [Order(commands.cancel(submission.id), why)]


def _hold(submission: Submission, stray: Sequence[str]) -> list[Order]:
    """Hold these tasks; if they are many, hold all that wait, and release again those that are to start."""
    # slurmctld keeps waiting tasks that were never changed alone as one record. Named in part they are split off
    # one by one, which kept a slurmctld 22.05 from answering anybody for minutes (4,999 of 5,000 tasks).
    why = f"tasks of {submission.id} wait until they are lent a node"
    if len(stray) <= _FEW:
        return [Order(commands.hold(*stray), why)] if stray else []
    asked = jobs_of(fragment for fragment in submission.fragments if fragment.state is FragmentState.ASKED)
    again = [Order(commands.release(*asked), f"start {len(asked)} fragments again")] if asked else []
    return [Order(commands.hold(submission.waiting_tasks), why), *again]


def _may_have_more(submission: Submission) -> bool:
    return submission.needs.cpus <= 1
