"""The commands that freetrain gives to Slurm, as argument lists. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from freetrain.core.fragment_queue import FragmentQueue

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
    "%q",
    "%k",
)
"""Id, array, user, account, partition, state, reason, times of submission, start and end, limit, nodes wanted,
priority, nodes had, planned and required, constraint, QOS; last the comment, which is free text."""

NEED_FIELDS = {
    "ArrayJobID": 16,
    "State": 16,
    "NumTasks": 16,
    "cpus-per-task": 16,
    "MinMemory": 24,
    "mem-per-tres": 128,
    "cpus-per-tres": 128,
    "tres-alloc": 512,
    "tres-per-node": 512,
    "tres-per-job": 512,
    "tres-per-task": 512,
    "tres-per-socket": 512,
    "sct": 32,
    "mintmpdisk": 24,
    "oversubscribe": 16,
    "Licenses": 64,
    "BurstBuffer": 16,
}
"""What a job asks for: none but the beginning of its burst buffer's is free text. With each the most letters that
squeue shall print."""

RUN_FIELDS = ("JobID", "State", "Start", "End")

QOS_LIMITS = ("GrpTRES", "GrpJobs", "GrpSubmit")
"""What all jobs of a QOS may have together."""

QOS_FIELDS = ("Name", "Preempt", "PreemptMode", "GraceTime", "PreemptExemptTime", *QOS_LIMITS)

ASSOCIATION_FIELDS = ("Account", "User", "DefaultQOS", "QOS")

SUBMIT_LIMITS = ("GrpSubmit", "MaxSubmitPU", "MaxSubmitPA")
"""What of a QOS limits how many jobs wait and run, as sacctmgr prints it."""

QOS_TERM_FIELDS = (
    "Name",
    "UsageFactor",
    "GrpTRES",
    "GrpJobs",
    "MaxTRESPU",
    "MaxJobsPU",
    "MaxTRESPA",
    "MaxJobsPA",
    *SUBMIT_LIMITS,
)

ENVIRONMENT = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C", "SLURM_BITSTR_LEN": "0"}
"""Epoch seconds, English, and arrays of waiting tasks never cut short."""

Command = tuple[str, ...]


_MOST_NAMED = 5000
"""Jobs named in one command."""


def ask_jobs(mark: str) -> Command:
    """All jobs; the header and each job begin with the mark, which nobody who writes a comment can know."""
    return ("squeue", "-a", "-t", "all", "-o", _job_format(mark))


def ask_job(mark: str, job: str) -> Command:
    """One job, or all tasks of an array, as :func:`ask_jobs` does."""
    return (*ask_jobs(mark), "-j", job)


def ask_needs(queue: FragmentQueue) -> Command:
    """What the jobs of a queue ask of their nodes: a line for each, a separator behind each field."""
    return ("squeue", "-h", "-a", "--noconvert", *_in_queue(queue), "-O", _need_format())


def ask_needs_of(arrays: Sequence[str]) -> Command:
    """What these jobs and arrays ask of their nodes, or have of them, in the form of :func:`ask_needs`.

    Of more than a command line takes all are asked about.
    """
    these = ("-j", ",".join(arrays)) if len(arrays) <= _MOST_NAMED else ()
    states = "PENDING,CONFIGURING,RUNNING,SUSPENDED"
    return ("squeue", "-h", "-a", "--noconvert", "-t", states, *these, "-O", _need_format())


def ask_excluded_nodes(queue: FragmentQueue) -> Command:
    """The nodes on which the jobs of a queue must not run, which no ``-O`` tells."""
    return ("squeue", "-h", "-a", *_in_queue(queue), "-o", f"%F{SEPARATOR}%x")


def ask_nodes(in_parts: bool = False) -> Command:
    """All nodes; with ``in_parts`` also how much of their generic resources is used, which costs Slurm more."""
    return ("scontrol", "-a", *(("-d",) if in_parts else ()), "-o", "show", "nodes")


def ask_reservations() -> Command:
    """All reservations."""
    return ("scontrol", "-a", "-o", "show", "reservation")


def ask_topology() -> Command:
    """All switches or blocks; nothing where the site has set none up."""
    return ("scontrol", "-o", "show", "topology")


def ask_partitions() -> Command:
    """All partitions."""
    return ("scontrol", "-a", "-o", "show", "partition")


def ask_runs(jobs: Sequence[str]) -> Command:
    """What accounting knows of these jobs, each run of a requeued one."""
    return ("sacct", "-D", "-P", "-n", "-X", "-o", ",".join(RUN_FIELDS), "-j", ",".join(jobs))


def ask_who_cancelled(job: str) -> Command:
    """How a job, or each task of an array, ended, as accounting knows it: with who cancelled it."""
    return ("sacct", "-D", "-P", "-n", "-X", "-o", "State", "-j", job)


def ping() -> Command:
    """Whether the controller answers; at once, unlike all other commands."""
    return ("scontrol", "ping")


def pin(job: str, node: str, limit_s: float, cpus: int = 0, memory_mb: int | None = 0) -> Command:
    """Tie a held task to a node and give it its time limit; without StartTime a requeued one waits for minutes.

    Args:
        job: the task.
        node: the only one on which it may run.
        limit_s: its time limit.
        cpus: that it shall have there; 0: as many as it asked for.
        memory_mb: that it shall have there; 0: all that there is; None: as much as it asked for.
    """
    return (
        "scontrol",
        "update",
        f"JobId={job}",
        f"ReqNodeList={node}",
        f"TimeLimit={_minutes(limit_s)}",
        "StartTime=now",
        *((f"MinCPUsNode={cpus}",) if cpus else ()),
        *(() if memory_mb is None else (f"MinMemoryNode={memory_mb}",)),
    )


def set_limit(limit_s: float, *jobs: str) -> Command:
    """Change the time limit of running fragments."""
    return ("scontrol", "update", f"JobId={','.join(jobs)}", f"TimeLimit={_minutes(limit_s)}")


def release(*jobs: str) -> Command:
    """Let held tasks start."""
    return ("scontrol", "release", ",".join(jobs))


def hold(*jobs: str) -> Command:
    """Hold waiting tasks, such that their owner can release them: what an operator holds otherwise he cannot."""
    return ("scontrol", "uhold", ",".join(jobs))


def requeue_hold(*jobs: str) -> Command:
    """Take up ended tasks, and hold them for the next time."""
    return ("scontrol", "requeuehold", ",".join(jobs))


def requeue_hold_running(*jobs: str) -> Command:
    """End running tasks and hold them for the next time; what has ended by itself meanwhile stays ended."""
    return ("scontrol", "requeuehold", "Incomplete", ",".join(jobs))


def cancel(*jobs: str) -> Command:
    """End jobs, or all tasks of arrays, for good."""
    return ("scancel", *jobs)


def set_comment(job: str, comment: str) -> Command:
    """Replace a job's comment."""
    return ("scontrol", "update", f"JobId={job}", f"Comment={comment}")


def raise_priority(job: str) -> Command:
    """Give a waiting job a higher priority, which Slurm lets an operator do, and not even the job's owner."""
    return ("scontrol", "update", f"JobId={job}", "Nice=-1")


def ask_tasks(mark: str, *arrays: str) -> Command:
    """The tasks of these arrays, each by itself; ``ask_jobs`` shows all that wait as one."""
    return ("squeue", "-a", "-r", "-t", "all", "-j", ",".join(arrays), "-o", _job_format(mark))


def ask_preemptions(*jobs: str) -> Command:
    """When Slurm asked these jobs to leave; it says so only where there is a grace time."""
    return ("squeue", "-a", "-r", "-t", "all", "-j", ",".join(jobs), "-O", "JobArrayID:40,PreemptTime:40")


def show_job(job: str) -> Command:
    """All that Slurm shows of one job."""
    return ("scontrol", "-o", "show", "job", job)


def ask_settings() -> Command:
    """Slurm's configuration."""
    return ("scontrol", "show", "config")


def ask_qos() -> Command:
    """All QOS, of which accounting knows."""
    return ("sacctmgr", "-n", "-P", "show", "qos", f"format={','.join(QOS_FIELDS)}")


def ask_qos_terms() -> Command:
    """What each QOS allows its jobs, and what they are charged."""
    return ("sacctmgr", "-n", "-P", "show", "qos", f"format={','.join(QOS_TERM_FIELDS)}")


def ask_associations() -> Command:
    """Each account, and each user in an account, with the QOS that their jobs may have."""
    return ("sacctmgr", "-n", "-P", "show", "assoc", f"format={','.join(ASSOCIATION_FIELDS)}")


def ask_accounts() -> Command:
    """The names of all accounts."""
    return ("sacctmgr", "-n", "-P", "show", "account", "format=Account")


def ask_users() -> Command:
    """The names of all users of whom accounting knows."""
    return ("sacctmgr", "-n", "-P", "show", "user", "format=User")


def ask_statistics() -> Command:
    """What the controller has been doing, and when it last planned the waiting jobs."""
    return ("sdiag",)


def ask_script(job: str) -> Command:
    """A job's batch script, on standard output."""
    return ("scontrol", "write", "batch_script", job, "-")


def ask_rights(user: str) -> Command:
    """What accounting lets an account do, and of which accounts it is coordinator."""
    return ("sacctmgr", "-n", "-P", "show", "user", user, "WithCoord", "format=AdminLevel,Coordinators")


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

    Args:
        node: the only one on which it may run.
        limit_s: its time limit.
        partition: the preemptible one.
        comment: by which it is known.
        name: for people.
        memory_mb: that it shall have; 0: all that there is.
        options: further ones of sbatch, by name; those without a value are left out.
        is_whole: whether it holds all of the node, rather than what its script and its memory ask for.
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
    """Options of sbatch for jobs that wait in it."""
    return (f"--partition={queue.partition}", *((f"--qos={queue.qos}",) if queue.qos else ()))


def _in_queue(queue: FragmentQueue) -> Command:
    return ("-p", queue.partition, *(("-q", queue.qos) if queue.qos else ()))


def _need_format() -> str:
    return ",".join(f"{name}:{size}{SEPARATOR}" for name, size in NEED_FIELDS.items())


def _minutes(limit_s: float) -> int:
    return max(1, int(limit_s // 60))


def _job_format(mark: str) -> str:
    return SEPARATOR.join((mark, *JOB_FIELDS))
