"""The commands by which users hand in trainers, and take them back. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.commands import Command, into


def submit(
    script: Sequence[str],
    comment: str,
    tasks: str,
    queue: FragmentQueue,
    name: str = "",
    options: Sequence[str] = (),
    is_whole: bool = True,
) -> Command:
    """Submit a trainer: a held array of tasks, one for each node.

    The user's options come first, since sbatch heeds the last one of each kind. One without its value takes the
    next word for it: that is --parsable, which can be missed, and never --hold.

    Args:
        script: the batch script and its arguments.
        comment: with the tag.
        tasks: their numbers, as 0-15.
        queue: where fragments wait and run.
        name: of the job; empty: the script's.
        options: more of sbatch, each in one word.
        is_whole: whether each task has a whole node, rather than what it asks for.
    """
    return (
        "sbatch",
        # A task that is requeued would begin its output file again.
        "--open-mode=append",
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
    """Give a waiting job what a trainer has; Slurm does all of it or nothing."""
    qos = (f"QOS={queue.qos}",) if queue.qos else ()
    what = (f"Comment={comment}", f"Partition={queue.partition}", *qos, "Requeue=1", "NumNodes=1")
    return ("scontrol", "update", f"JobId={job}", *what)


def make_ordinary(job: str, partition: str, has_qos: bool) -> Command:
    """Take the tag from a waiting job, and move it; Slurm does all of it or nothing.

    Args:
        job: the array or the job.
        partition: where it is to wait.
        has_qos: whether it has the QOS of fragments, so that it gets its owner's again.
    """
    what = ("Comment=", f"Partition={partition}", *(("QOS=",) if has_qos else ()))
    return ("scontrol", "update", f"JobId={job}", *what)
