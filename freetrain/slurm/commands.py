"""The commands that freetrain gives to Slurm, as argument lists. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence

SEPARATOR = "\x1f"

JOB_FIELDS = (
    "%i",
    "%F",
    "%u",
    "%a",
    "%P",
    "%T",
    "%r",
    "%V",
    "%S",
    "%e",
    "%l",
    "%D",
    "%Q",
    "%N",
    "%Y",
    "%n",
    "%f",
    "%k",
)
"""Id, array, user, account, partition, state, reason, times of submission, start and end, limit, nodes wanted,
priority, nodes had, planned and required, constraint; last the comment, which is free text."""

RUN_FIELDS = ("JobID", "State", "Start", "End", "NodeList", "ExitCode")

ENVIRONMENT = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C", "SLURM_BITSTR_LEN": "0"}
"""Epoch seconds, English, and arrays of waiting tasks never cut short."""

Command = tuple[str, ...]


def ask_jobs(mark: str) -> Command:
    """All jobs; each begins with the mark, which nobody who writes a comment can know."""
    return ("squeue", "-h", "-a", "-t", "all", "-o", SEPARATOR.join((mark, *JOB_FIELDS)))


def ask_job(mark: str, job: str) -> Command:
    """One job, or all tasks of an array, as :func:`ask_jobs` does."""
    return (*ask_jobs(mark), "-j", job)


def ask_nodes() -> Command:
    """All nodes."""
    return ("scontrol", "-a", "-o", "show", "nodes")


def ask_reservations() -> Command:
    """All reservations."""
    return ("scontrol", "-a", "-o", "show", "reservation")


def ask_partitions() -> Command:
    """All partitions."""
    return ("scontrol", "-a", "-o", "show", "partition")


def ask_runs(jobs: Sequence[str]) -> Command:
    """What accounting knows of these jobs, each run of a requeued one."""
    return ("sacct", "-D", "-P", "-n", "-X", "-o", ",".join(RUN_FIELDS), "-j", ",".join(jobs))


def ping() -> Command:
    """Whether the controller answers; at once, unlike all other commands."""
    return ("scontrol", "ping")


def pin(job: str, node: str, limit_s: float) -> Command:
    """Tie a held task to a node and give it its time limit; without StartTime a requeued one waits for minutes."""
    minutes = max(1, int(limit_s // 60))
    return ("scontrol", "update", f"JobId={job}", f"ReqNodeList={node}", f"TimeLimit={minutes}", "StartTime=now")


def set_limit(job: str, limit_s: float) -> Command:
    """Change a running fragment's time limit."""
    return ("scontrol", "update", f"JobId={job}", f"TimeLimit={max(1, int(limit_s // 60))}")


def release(job: str) -> Command:
    """Let a held task start."""
    return ("scontrol", "release", job)


def hold(job: str) -> Command:
    """Hold a waiting task, such that its owner cannot release it by accident."""
    return ("scontrol", "hold", job)


def requeue_hold(job: str) -> Command:
    """End a running task and hold it for the next time."""
    return ("scontrol", "requeuehold", job)


def cancel(job: str) -> Command:
    """End a job, or all tasks of an array, for good."""
    return ("scancel", job)


def set_comment(job: str, comment: str) -> Command:
    """Replace a job's comment."""
    return ("scontrol", "update", f"JobId={job}", f"Comment={comment}")


def submit(
    script: Sequence[str], comment: str, nodes: int, partition: str, name: str = "", options: Sequence[str] = ()
) -> Command:
    """Submit a trainer: a held array of one-node tasks.

    The user's options come first, since sbatch heeds the last one of each kind. One without its value takes the
    next word for it: that is --parsable, which can be missed, and never --hold.

    Args:
        script: the batch script and its arguments.
        comment: with the tag.
        nodes: most that it can use.
        partition: the preemptible one.
        name: of the job; empty: the script's.
        options: more of sbatch, each in one word.
    """
    return (
        "sbatch",
        *options,
        "--parsable",
        "--hold",
        "--requeue",
        f"--array=0-{nodes - 1}",
        "--nodes=1",
        f"--partition={partition}",
        f"--comment={comment}",
        *((f"--job-name={name}",) if name else ()),
        *script,
    )


def hold_own(job: str) -> Command:
    """Hold one's own waiting job, such that one can release it."""
    return ("scontrol", "uhold", job)


def make_trainer(job: str, comment: str, partition: str) -> Command:
    """Give a waiting job what a trainer has; Slurm does all of it or nothing."""
    what = (f"Comment={comment}", f"Partition={partition}", "Requeue=1", "NumNodes=1")
    return ("scontrol", "update", f"JobId={job}", *what)
