"""Registration of jobs as trainers, at submission or later, and the way back to ordinary jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.slurm.commands import Command, into
from freetrain.slurm.tags import TAG_PREFIX


def submit(
    script: Sequence[str],
    comment: str,
    tasks: str,
    queue: FragmentQueue,
    name: str = "",
    options: Sequence[str] = (),
    is_whole: bool = True,
) -> Command:
    """Submit a trainer: a held array of tasks, one for each node; options of sbatch have one word each."""
    return (
        "sbatch",
        # A task that is requeued would begin its output file again.
        "--open-mode=append",
        # Before ours, since sbatch heeds the last one of each kind. An option without its value takes the next
        # word for it: that is --parsable, which can be missed, and never --hold.
        *options,
        "--parsable",
        "--hold",
        "--requeue",
        f"--array={tasks}",
        "--nodes=1",
        *into(queue),
        f"--comment={comment}",
        *(("--exclusive",) if is_whole else ()),
        *((f"--job-name={name}",) if name else ()),
        *script,
    )


def make_trainer(job: str, comment: str, queue: FragmentQueue) -> Command:
    """Give a waiting job the tag, the partition and the options of a trainer; Slurm does all of it or nothing."""
    qos = (f"QOS={queue.qos}",) if queue.qos else ()
    what = (f"Comment={comment}", f"Partition={queue.partition}", *qos, "Requeue=1", "NumNodes=1")
    return ("scontrol", "update", f"JobId={job}", *what)


def make_ordinary(job: str, partition: str, has_qos: bool) -> Command:
    """Take the tag from a waiting job, and move it; Slurm does all of it or nothing.

    A job that has the QOS of fragments gets its owner's again.
    """
    what = ("Comment=", f"Partition={partition}", *(("QOS=",) if has_qos else ()))
    return ("scontrol", "update", f"JobId={job}", *what)


def find_obstacle(job: str, tasks: Sequence[Job], user: str, most_nodes: int) -> str | None:
    """Reason why this job cannot be a trainer, as a sentence; None: it can."""
    if other := _of_another_user(job, tasks, user, "make it a trainer"):
        return other
    first = tasks[0]
    if "+" in first.id:
        return f"job {job} has several components; a trainer is an array of one-node tasks."
    begun = next((task for task in tasks if task.state is not JobState.PENDING), None)
    if begun is not None:
        return f"job {begun.id} is {begun.state.value}; only a job that still waits can become a trainer."
    if first.node_count != 1:
        return f"job {job} wants {first.node_count} nodes at once; a trainer is an array of one-node tasks."
    if most_nodes > len(tasks):
        if first.id == first.array:
            return f"job {first.id} is no array, so it can be a trainer of one node at most, not of {most_nodes}."
        has = f"the array {first.array} has {len(tasks)} tasks"
        return f"{has}, so it can use {len(tasks)} nodes at most, not {most_nodes}."
    return None


def find_obstacle_to_leaving(job: str, tasks: Sequence[Job], user: str, queue: FragmentQueue) -> str | None:
    """Reason why this trainer cannot become an ordinary job again, as a sentence; None: it can."""
    if other := _of_another_user(job, tasks, user, "take it back"):
        return other
    first = tasks[0]
    if not (first.comment.startswith(TAG_PREFIX) and queue.has(first)):
        return f"job {job} is no trainer: there is nothing to take back."
    # A task that was ever lent a node is tied to it, and Slurm keeps no record of what it asked for at first.
    begun = next((task for task in tasks if task.state is not JobState.PENDING or task.required_nodes), None)
    if begun is not None:
        return f"job {begun.id} has been lent a node; only a trainer that never was can be an ordinary job again."
    return None


def _of_another_user(job: str, tasks: Sequence[Job], user: str, what: str) -> str | None:
    if not tasks:
        return f"Slurm knows no job {job}."
    owner = tasks[0].user
    return f"job {job} is {owner}'s; only its owner can {what}." if owner != user else None
