"""The orders that freetrain gives to Slurm, as argument lists. Nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ClusterShell.RangeSet import RangeSet

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.grouping import grouped

ENVIRONMENT = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C", "SLURM_BITSTR_LEN": "0"}
"""Epoch seconds, English, and arrays of waiting tasks never cut short."""

Command = tuple[str, ...]


def fold_jobs(jobs: Iterable[str]) -> str:
    """Jobs as scontrol takes them: ``7,12_4,15_[0-3,8]``, one request for all tasks of an array.

    Named one by one each task costs slurmctld a request of its own, 0.2 s in an array of 5,000 (22.05).
    """
    numbers = grouped((array, task) for array, _, task in (job.partition("_") for job in jobs))
    return ",".join(_of_array(array, tasks) for array, tasks in numbers.items())


def _of_array(array: str, tasks: list[str]) -> str:
    if not all(tasks):
        # The job, or all that is left of the array
        return array
    return f"{array}_{tasks[0]}" if len(tasks) == 1 else f"{array}_[{RangeSet.fromlist(tasks)}]"


def pin(
    job: str,
    nodes: tuple[str, ...],
    limit_s: float,
    cpus: int = 0,
    memory_mb: int | None = 0,
    processes: int | None = None,
) -> Command:
    """Tie a held task to all of these nodes, and give it its time limit.

    No CPUs: as many as it asked for. No memory: all that there is on each node; None: as much as it asked for.
    Processes on each node: only for a task on several nodes.
    """
    count = len(nodes)
    return (
        "scontrol",
        "update",
        f"JobId={job}",
        f"ReqNodeList={','.join(nodes)}",
        f"TimeLimit={_minutes(limit_s)}",
        # Without it a task that was requeued waits for over two minutes (22.05).
        "StartTime=now",
        *((f"MinCPUsNode={cpus}",) if cpus else ()),
        *(() if memory_mb is None else (f"MinMemoryNode={memory_mb}",)),
        # A range, since Slurm takes a single number as the minimum, which may not exceed the old maximum.
        *(() if processes is None else (f"NumNodes={count}-{count}", f"NumTasks={count * processes}")),
    )


def set_limit(limit_s: float, *jobs: str) -> Command:
    """Change the time limit of running fragments."""
    return ("scontrol", "update", f"JobId={fold_jobs(jobs)}", f"TimeLimit={_minutes(limit_s)}")


def release(*jobs: str) -> Command:
    """Let held tasks start."""
    return ("scontrol", "release", fold_jobs(jobs))


def hold(*jobs: str) -> Command:
    """Hold waiting tasks, such that their owner can release them."""
    # What an operator holds with a plain "hold" only an operator can release.
    return ("scontrol", "uhold", fold_jobs(jobs))


def requeue_hold(*jobs: str) -> Command:
    """Take up ended tasks, and hold them for the next time."""
    return ("scontrol", "requeuehold", fold_jobs(jobs))


def requeue_hold_running(*jobs: str) -> Command:
    """End running tasks and hold them for the next time."""
    # Without "Incomplete" a task that has completed meanwhile would be run once more.
    return ("scontrol", "requeuehold", "Incomplete", fold_jobs(jobs))


def cancel(*jobs: str) -> Command:
    """End jobs, or all tasks of arrays, for good."""
    return ("scancel", *jobs)


def let_requeue(job: str) -> Command:
    """Have Slurm requeue a job that it preempts, whatever the site (JobRequeue) or its owner gave."""
    return ("scontrol", "update", f"JobId={job}", "Requeue=1")


def set_comment(job: str, comment: str) -> Command:
    """Replace a job's comment."""
    return ("scontrol", "update", f"JobId={job}", f"Comment={comment}")


def raise_priority(job: str) -> Command:
    """Give a waiting job a higher priority, which Slurm lets an operator do, and not even the job's owner."""
    return ("scontrol", "update", f"JobId={job}", "Nice=-1")


def submit_fragment(
    node: str,
    limit_s: float,
    partition: str,
    comment: str,
    name: str,
    memory_mb: int,
    options: Mapping[str, str],
    is_whole: bool = True,
) -> Command:
    """Submit a fragment, its script on standard input; prints the job's id.

    No memory: all that there is. Options of sbatch without a value are left out.
    """
    return (
        "sbatch",
        "--parsable",
        f"--partition={partition}",
        "--nodes=1",
        f"--nodelist={node}",
        *(("--exclusive",) if is_whole else ()),
        f"--mem={memory_mb}",
        f"--time={_minutes(limit_s)}",
        # Slurm requeues a job of a node that has failed while its processes there may still run.
        "--no-requeue",
        # Fragments of one script may write to one file, one after the other.
        "--open-mode=append",
        # The daemon's own environment is no business of a training's. With NONE newer Slurms log the owner in, and
        # hold the job where that fails; older ones take NIL for a variable that is not set, which means the same.
        "--export=NIL",
        f"--job-name={name}",
        f"--comment={comment}",
        *(f"--{option}={value}" for option, value in options.items() if value),
    )


def submit_held(queue: FragmentQueue, name: str, comment: str) -> Command:
    """Submit a job that never runs, whose script comes on standard input; prints the job's id."""
    return (
        "sbatch",
        "--parsable",
        "--hold",
        *into(queue),
        "--nodes=1",
        "--time=1",
        "--no-requeue",
        "--export=NONE",
        "--chdir=/",
        "--output=/dev/null",
        f"--job-name={name}",
        f"--comment={comment}",
    )


def into(queue: FragmentQueue) -> Command:
    """Options of sbatch for jobs that wait in this queue."""
    return (f"--partition={queue.partition}", *((f"--qos={queue.qos}",) if queue.qos else ()))


def _minutes(limit_s: float) -> int:
    return max(1, int(limit_s // 60))
