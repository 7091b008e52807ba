"""Questions of freetrain to Slurm, as argument lists. Nothing is run here.

Tables are asked for with their header: it shows that there was an answer, where an empty text shows nothing.
sacctmgr is kept from changing anything (-r).
"""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.commands import Command

SEPARATOR = "\x1f"

JOB_FIELDS = (
    "%i", "%F", "%u", "%a", "%P", "%T", "%r", "%V", "%S", "%e", "%l", "%D", "%Q", "%N", "%Y", "%n", "%f", "%q",
    "%E", "%k",
)  # fmt: skip
"""Id, array, user, account, partition, state, reason, times of submission, start and end, limit, nodes wanted,
priority, nodes had, planned and required, constraint, QOS, dependency; last the comment, which is free text."""

NEED_FIELDS = {
    "ArrayJobID": 16, "State": 16, "NumTasks": 16, "cpus-per-task": 16, "MinMemory": 24, "mem-per-tres": 128,
    "cpus-per-tres": 128, "tres-alloc": 512, "tres-per-node": 512, "tres-per-job": 512, "tres-per-task": 512,
    "tres-per-socket": 512, "sct": 32, "mintmpdisk": 24, "oversubscribe": 16, "Licenses": 64, "BurstBuffer": 16,
    "Exclusive": 16, "Requeue": 8, "EligibleTime": 24,
}  # fmt: skip
"""Fields of a job's request, each with the most letters that squeue shall print. None but the beginning of its
burst buffer's is free text. Slurm has Exclusive since 26.05: before that squeue complains of it on standard error,
prints nothing in its place, and all else."""
_NEED_FORMAT = ",".join(f"{name}:{size}{SEPARATOR}" for name, size in NEED_FIELDS.items())

RUN_FIELDS = ("JobID", "State", "Start", "End")

QOS_FIELDS = (
    "Name", "Preempt", "PreemptMode", "GraceTime", "PreemptExemptTime", "Priority", "UsageFactor", "Flags",
    "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "GrpJobs", "GrpSubmit", "GrpWall", "MaxTRES", "MaxTRESPerNode",
    "MaxTRESMins", "MaxWall", "MaxTRESPU", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPA", "MaxJobsPA", "MaxSubmitPA",
    "MinTRES",
)  # fmt: skip

ASSOCIATION_FIELDS = (
    "Account", "User", "ParentName", "DefaultQOS", "QOS", "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "GrpJobs",
    "GrpSubmit", "GrpWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MaxJobs", "MaxSubmit", "MaxWall",
)  # fmt: skip

PING: Command = ("scontrol", "ping")
"""Question whether the controller answers; it ends at once, unlike all other commands."""
ASK_SETTINGS: Command = ("scontrol", "show", "config")
"""Slurm's configuration."""
ASK_PARTITIONS: Command = ("scontrol", "-a", "-o", "show", "partition")
ASK_RESERVATIONS: Command = ("scontrol", "-a", "-o", "show", "reservation")
ASK_TOPOLOGY: Command = ("scontrol", "-o", "show", "topology")
"""All switches or blocks; nothing where the site has set none up."""
ASK_STATISTICS: Command = ("sdiag",)
"""Statistics of the controller, with the time at which it last planned the waiting jobs."""
ASK_QOS: Command = ("sacctmgr", "-r", "-P", "show", "qos", f"format={','.join(QOS_FIELDS)}")
"""All QOS of which accounting knows, with what they allow, preempt and cost."""
ASK_ACCOUNTS: Command = ("sacctmgr", "-r", "-P", "show", "account", "format=Account")
ASK_USERS: Command = ("sacctmgr", "-r", "-P", "show", "user", "format=User")
"""The names of all users in accounting."""

# Linux takes 128 KiB in one argument, which so many ids fit into.
_MOST_NAMED = 5000


def ask_jobs(mark: str) -> Command:
    """Ask for all jobs; the header and each job begin with the mark, which no writer of a comment can know."""
    return ("squeue", "-a", "-t", "all", "-o", _job_format(mark))


def ask_job(mark: str, job: str) -> Command:
    """Ask for one job, or all tasks of an array, as :func:`ask_jobs` does."""
    return (*ask_jobs(mark), "-j", job)


def ask_needs(queue: FragmentQueue) -> Command:
    """Ask for the requests of a queue's jobs for their nodes: a line for each, a separator behind each field."""
    return ("squeue", "-a", "--noconvert", *_in_queue(queue), "-O", _NEED_FORMAT)


def ask_needs_of(arrays: Sequence[str]) -> Command:
    """Ask for the requests of these jobs and arrays, or what they have, in the form of :func:`ask_needs`."""
    # Where a command line would be too long, all jobs are asked about.
    these = ("-j", ",".join(arrays)) if len(arrays) <= _MOST_NAMED else ()
    states = "PENDING,CONFIGURING,RUNNING,SUSPENDED"
    return ("squeue", "-a", "--noconvert", "-t", states, *these, "-O", _NEED_FORMAT)


def ask_excluded_nodes(queue: FragmentQueue) -> Command:
    """Ask for the nodes on which the jobs of a queue must not run, which no field of ``-O`` shows."""
    return ("squeue", "-a", *_in_queue(queue), "-o", f"%F{SEPARATOR}%x")


def ask_nodes(in_parts: bool = False) -> Command:
    """Ask for all nodes; ``in_parts``: also for their generic resources in use, which costs Slurm more."""
    return ("scontrol", "-a", *(("-d",) if in_parts else ()), "-o", "show", "nodes")


def ask_runs(jobs: Sequence[str]) -> Command:
    """Ask accounting for the runs of these jobs, each run of a requeued one."""
    return ("sacct", "-D", "-P", "-X", "-o", ",".join(RUN_FIELDS), "-j", ",".join(jobs))


def ask_who_cancelled(job: str) -> Command:
    """Ask accounting for the states of a job, or of an array's tasks, with the user that cancelled each."""
    return ("sacct", "-D", "-P", "-X", "-o", "State", "-j", job)


def ask_tasks(mark: str, *arrays: str) -> Command:
    """Ask for the tasks of these arrays, each by itself; ``ask_jobs`` shows all that wait as one."""
    return ("squeue", "-a", "-r", "-t", "all", "-j", ",".join(arrays), "-o", _job_format(mark))


def ask_preemptions(*jobs: str) -> Command:
    """Ask for the times at which Slurm asked these jobs to leave; it shows them only with a grace time."""
    return ("squeue", "-a", "-r", "-t", "all", "-j", ",".join(jobs), "-O", "JobArrayID:40,PreemptTime:40")


def show_job(job: str) -> Command:
    """Ask for all that Slurm shows of one job."""
    return ("scontrol", "-o", "show", "job", job)


def ask_associations(cluster: str) -> Command:
    """Ask for the accounts of a cluster, and the users in each, with their limits and the QOS they may have."""
    fields = f"format={','.join(ASSOCIATION_FIELDS)}"
    return ("sacctmgr", "-r", "-P", "show", "assoc", f"cluster={cluster}", fields)


def ask_script(job: str) -> Command:
    """Ask for a job's batch script, on standard output."""
    return ("scontrol", "write", "batch_script", job, "-")


def ask_rights(user: str) -> Command:
    """Ask accounting for a user's admin level, and for the accounts whose coordinator they are."""
    return ("sacctmgr", "-r", "-P", "show", "user", user, "WithCoord", "format=AdminLevel,Coordinators")


def _in_queue(queue: FragmentQueue) -> Command:
    return ("-p", queue.partition, *(("-q", queue.qos) if queue.qos else ()))


def _job_format(mark: str) -> str:
    return SEPARATOR.join((mark, *JOB_FIELDS))
