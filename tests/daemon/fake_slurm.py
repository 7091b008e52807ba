"""A Slurm of the imagination: knows just the commands that freetrain gives, and starts what can start at once."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.big_site import named_in
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobRun, JobState
from freetrain.core.node import NodeState, Partition, Reservation
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.queries import NEED_FIELDS, SEPARATOR
from freetrain.slurm.settings import parse_conf
from freetrain.slurm.site.facts import Site
from freetrain.slurm.states import waits_for
from tests.facts import node
from tests.slurm.site.rows import partition_row

NODES = tuple(f"n{number}" for number in range(1, 9))
CONFIG = "PreemptMode = REQUEUE\nPreemptType = preempt/partition_prio\nSlurmUser = slurm(1)\nClusterName = fake\n"
NODE = node("", "IDLE", cpus=4, memory_mb=1000, sockets=4, cores_per_socket=1, threads_per_core=1)
UNDEMANDING = dict.fromkeys(NEED_FIELDS, "N/A") | {
    "State": "PENDING", "NumTasks": "1", "cpus-per-task": "1", "MinMemory": "0", "tres-alloc": "cpu=1,node=1",
    "sct": "*:*:*", "mintmpdisk": "0", "oversubscribe": "NO", "Exclusive": "", "Requeue": "1",
}  # fmt: skip
"""What squeue shows of a task that asks for nothing but a whole node."""


QUEUE = FragmentQueue("freetrain")


class FakeSlurm(Gateway):
    """A gateway to nothing.

    Attributes:
        now_s: its clock.
        jobs: by id.
        told: every command that changed something, or tried to.
        away: whether it answers nobody.
        deaf_after: how many more commands it answers; None: all.
        stuck: whether it starts no fragments.
        is_between_cycles: whether it starts none of the site's jobs at the moment.
        config: what ``scontrol show config`` prints.
        queue: where fragments wait and run; it preempts those that do.
        account: whose jobs are those that the daemon submits for itself.
        operators: accounts that may steer the jobs of others.
        qos: what accounting knows of QOS.
        rejected: lines of its answers that cannot be understood.
        asked: array → what squeue shows of what its tasks ask for, by field, where that is unlike UNDEMANDING.
        topology: what scontrol shows of the switches.
        cancelled_by: array → numbers of the users of whom accounting knows that they cancelled some of it.
        impossible: arrays for whose tasks Slurm finds no node.
        reasons: array → why Slurm starts none of its tasks, whatever is released, in its own word.
    """

    def __init__(self, nodes: Sequence[str] = NODES, grace_s: float = 0.0, queue: FragmentQueue = QUEUE) -> None:
        self.now_s = 1_000_000.0
        self.nodes = {name: replace(NODE, name=name) for name in nodes}
        self.jobs: dict[str, Job] = {}
        self.history: list[JobRun] = []
        self.reservations: list[Reservation] = []
        self.partitions = {
            "main": Partition("main", frozenset(nodes), priority_tier=10),
            "freetrain": Partition("freetrain", frozenset(nodes), preempt_mode="REQUEUE", grace_s=grace_s),
        }
        self.queue = queue
        self.topology = ""
        self.rejected: tuple[str, ...] = ()
        self.told: list[Command] = []
        self.scripts: dict[str, str] = {}
        self.asked: dict[str, dict[str, str]] = {}
        self.asked_to_leave_s: dict[str, int] = {}
        self.impossible: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.away = False
        self.stuck = False
        self.is_between_cycles = False
        self.config = CONFIG
        self.account = getpass.getuser()
        self.operators = {self.account}
        self.qos: dict[str, Row] | None = None
        self.deaf_after: int | None = None
        self.cancelled_by: dict[str, tuple[int, ...]] = {}
        self._number = 100
        self._marks = 0

    # What users and the site do.

    def submit_array(
        self,
        tag: str,
        tasks: int = 4,
        user: str = "news",
        held: bool = True,
        constraint: str = "",
        asked: dict[str, str] | None = None,
    ) -> str:
        """A user hands in an array."""
        self._number += 1
        array = str(self._number)
        self.asked[array] = asked or {}
        for task in range(tasks):
            job = Job(f"{array}_{task}", array, user, self.queue.partition, JobState.PENDING, comment=tag)
            self._add(replace(job, qos=self.queue.qos, features=constraint), held)
        return array

    def submit(self, nodes: int = 1, user: str = "games", comment: str = "", partition: str = "main") -> str:
        """One of the site's jobs; it starts, evicting fragments, or waits."""
        self._number += 1
        job = Job(str(self._number), str(self._number), user, partition, JobState.PENDING, node_count=nodes)
        self._add(replace(job, comment=comment), held=False)
        self.start_what_can()
        return job.id

    def finish(self, job: str, state: JobState = JobState.COMPLETED) -> None:
        """A job ends by itself."""
        self.jobs[job] = replace(self.jobs[job], state=state, end_s=self.now_s)
        self._remember(self.jobs[job], state)

    def leave_in_grace(self, job: str, state: JobState = JobState.COMPLETED) -> None:
        """A job ends by itself while Slurm preempts it."""
        self.asked_to_leave_s[job] = int(self.now_s)
        self.finish(job, state)

    def forget(self, job: str) -> None:
        """Slurm shows it no more."""
        del self.jobs[job]

    def advance(self, seconds: float) -> None:
        """Time goes by."""
        self.now_s += seconds
        self.start_what_can()

    def start_what_can(self) -> None:
        """Site's jobs first, on idle nodes and then on those of fragments; then released tasks on their nodes."""
        waiting_jobs = [
            job
            for job in self.jobs.values()
            if self._is_site(job) and job.state is JobState.PENDING and not job.is_held
        ]
        for job in waiting_jobs if not self.is_between_cycles else ():
            taken = self._taken(self._is_site)
            free = sorted(set(self.nodes) - taken, key=lambda name: (name in self._taken(lambda one: True), name))
            if len(free) >= job.node_count:
                self._start(job, free[: job.node_count])
        for job in [job for job in self.jobs.values() if self.queue.has(job) and not job.is_held]:
            if job.state is JobState.PENDING and job.array in self.impossible:
                self.jobs[job.id] = waiting(job, "BadConstraints", priority=0)
            elif job.state is JobState.PENDING and job.array in self.reasons:
                self.jobs[job.id] = waiting(job, self.reasons[job.array])
            elif job.state is JobState.PENDING and not self.stuck and not job.dependency:
                wanted = job.required_nodes or set(sorted(set(self.nodes) - self._taken(lambda one: True))[:1])
                if len(wanted) == job.node_count and not wanted - (
                    set(self.nodes) - self._taken(lambda one: True)
                ):
                    self._start(job, sorted(wanted))

    def running(self, array: str) -> list[str]:
        """Nodes that an array's tasks have."""
        tasks = [job for job in self.jobs.values() if job.array == array and job.state is JobState.RUNNING]
        return sorted(name for task in tasks for name in task.nodes)

    # What the gateway is asked.

    def snapshot(self) -> Snapshot:
        """Everything there is."""
        self._answer()
        taken = self._taken(lambda one: True)
        nodes = tuple(
            replace(node, state=NodeState.BUSY, state_text="ALLOCATED")
            if node.name in taken and node.state is NodeState.IDLE
            else node
            for node in self.nodes.values()
        )
        return Snapshot(
            self.now_s, nodes, tuple(self.jobs.values()), tuple(self.reservations), self.partitions, self.rejected
        )

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """Its settings, partitions and QOS."""
        self._answer()
        rows = {name: partition_row(partition) for name, partition in self.partitions.items()}
        return Site(parse_conf(self.config), rows, self.qos)

    def last_plan_s(self) -> float | None:
        """It plans all the time."""
        return None

    def job(self, id_: str) -> list[Job]:
        """One job, or the tasks of an array."""
        return [job for job in self.snapshot().jobs if job.array == id_]

    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """What was remembered."""
        return [run for run in self.history if run.id in jobs]

    def perform(self, command: Command, stdin: str = "") -> str:  # noqa: C901 (one case a command)
        """Do as told."""
        match command:
            case ("sacctmgr", *_, user, "WithCoord", _):
                return "Operator|\n" if user in self.operators else "None|\n"
            case ("sacct", *_, "State", "-j", array):
                self._answer()
                return "".join(f"CANCELLED by {user}\n" for user in self.cancelled_by.get(array, ()))
            case ("scontrol", "write", "batch_script", job, "-"):
                return self.scripts[job]
            case ("scontrol", "-o", "show", "job", _):
                return "JobId=1 WorkDir=/home/somebody StdErr=/dev/null"
            case ("scontrol", "-o", "show", "topology"):
                self._answer()
                return self.topology
            case ("squeue", *_, "-O", _) if "-p" in command:
                self._answer()
                return "".join(
                    self._needs_of(array) for array in sorted({job.array for job in self.jobs.values()})
                )
            case ("squeue", *_, "-o", _) if "-p" in command:
                self._answer()
                return ""
            case ("squeue", *_, "-O", _):
                self._answer()
                jobs = command[command.index("-j") + 1].split(",")
                return "JOBID PREEMPT_TIME\n" + "".join(
                    f"{job} {self.asked_to_leave_s.get(job, 'N/A')}\n" for job in jobs
                )
        self.told.append(command)
        self._answer()
        match command:
            case ("scontrol", "update", job, *values):
                self._update(job.removeprefix("JobId="), dict(value.split("=", 1) for value in values))
            case ("scontrol", "release", tasks):
                self._set(tasks, priority=1)
            case ("scontrol", "uhold", tasks):
                self._set(tasks, priority=0)
            case ("scontrol", "requeuehold", *only, tasks):
                for task in named_in(tasks):
                    if not only or not self._job(task).state.is_final:
                        self._requeue(self._job(task), held=True)
            case ("scancel", *ids):
                self._cancel(ids)
            case ("sbatch", *options):
                return self._sbatch(options)
            case _:
                raise AssertionError(f"nobody knows {command}")
        self.start_what_can()
        return ""

    def _needs_of(self, array: str) -> str:
        """A line of squeue's: what the tasks of an array ask of their nodes."""
        asked = UNDEMANDING | {"ArrayJobID": array} | self.asked.get(array, {})
        return "".join(f"{asked[name]:<{size}}{SEPARATOR}" for name, size in NEED_FIELDS.items()) + "\n"

    def _answer(self) -> None:
        if self.deaf_after is not None:
            self.away = self.away or self.deaf_after == 0
            self.deaf_after -= 1
        if self.away:
            raise SlurmUnreachableError("nobody is there.")

    def _add(self, job: Job, held: bool) -> None:
        reason = "JobHeldUser" if held else "Priority"
        priority = 0 if held else 1
        self.jobs[job.id] = waiting(job, reason, submitted_s=self.now_s, priority=priority)

    def _is_site(self, job: Job) -> bool:
        return job.partition == "main" and not self.queue.has(job)

    def _taken(self, which: object) -> set[str]:
        assert callable(which)
        return {name for job in self.jobs.values() if job.state.has_nodes and which(job) for name in job.nodes}

    def _start(self, job: Job, names: Sequence[str]) -> None:
        for other in list(self.jobs.values()):
            if other.state is JobState.RUNNING and other.nodes & set(names):
                self._remember(other, JobState.PREEMPTED)
                self._requeue(other, held=False, begin_later=True)
        self.jobs[job.id] = replace(
            job, state=JobState.RUNNING, nodes=frozenset(names), start_s=self.now_s, reason=""
        )

    def _requeue(self, job: Job, held: bool, begin_later: bool = False) -> None:
        if job.state is JobState.PENDING:
            raise SlurmRefusedError("Job is pending execution")
        if held and job.state is JobState.RUNNING:
            self._remember(job, JobState.REQUEUED)
        reason = "job requeued in held state" if held else "BeginTime"
        away = frozenset({"nowhere"}) if begin_later else frozenset()
        self.jobs[job.id] = waiting(
            job, reason, state=JobState.PENDING, nodes=frozenset(), start_s=None, end_s=None,
            priority=0 if held else 1, required_nodes=away,
        )  # fmt: skip

    def _remember(self, job: Job, state: JobState) -> None:
        self.history.append(JobRun(job.id, state, job.start_s, self.now_s))

    def _job(self, id_: str) -> Job:
        if id_ not in self.jobs:
            raise SlurmRefusedError(f"Invalid job id specified: {id_}")
        return self.jobs[id_]

    def _set(self, tasks: str, priority: int) -> None:
        for task in named_in(tasks):
            reason = "Priority" if priority else "JobHeldUser"
            if self._job(task).state is JobState.PENDING:
                self.jobs[task] = waiting(self.jobs[task], reason, priority=priority)

    def _update(self, id_: str, values: dict[str, str]) -> None:
        if "Comment" in values:
            self._comment(id_, values["Comment"])
            return
        if "Requeue" in values:
            self.asked[id_.partition("_")[0]]["Requeue"] = values["Requeue"]
            return
        for job in map(self._job, named_in(id_)):
            limit_s = float(values["TimeLimit"]) * 60 if "TimeLimit" in values else job.limit_s
            named = frozenset(values["ReqNodeList"].split(",")) if "ReqNodeList" in values else job.required_nodes
            least, _, most = values.get("NumNodes", f"{job.node_count}-{job.node_count}").partition("-")
            if int(least) > int(most or job.node_count):
                raise SlurmRefusedError("Node count specification invalid")
            count = int(least)
            self.jobs[job.id] = replace(job, limit_s=limit_s, required_nodes=named, node_count=count)

    def _comment(self, id_: str, comment: str) -> None:
        """As the real one: what has ended is an error, and the others are changed all the same."""
        named = named_in(id_)
        jobs = [job for job in self.jobs.values() if job.id in named or job.array == id_]
        for job in jobs:
            if not job.state.is_final:
                self.jobs[job.id] = replace(job, comment=comment)
        if any(job.state.is_final for job in jobs) or not jobs:
            raise SlurmRefusedError("Job has already finished")

    def _cancel(self, ids: Sequence[str]) -> None:
        for job in list(self.jobs.values()):
            if (job.id in ids or job.array in ids) and not job.state.is_final:
                self.jobs[job.id] = replace(job, state=JobState.CANCELLED, end_s=self.now_s)

    def _sbatch(self, options: Sequence[str]) -> str:
        given = dict(option.removeprefix("--").split("=", 1) for option in options if "=" in option)
        if "--hold" in options:
            self._marks += 1
            id_ = str(9000 + self._marks)
            mark = Job(id_, id_, self.account, given["partition"], JobState.PENDING, qos=given.get("qos", ""))
            self._add(replace(mark, comment=given["comment"]), held=True)
            return f"{id_}\n"
        self._number += 1
        id_ = str(self._number)
        node = frozenset({given["nodelist"]})
        limit_s = float(given["time"]) * 60
        job = Job(id_, id_, "backup", given["partition"], JobState.PENDING, required_nodes=node, limit_s=limit_s)
        self._add(replace(job, qos=given.get("qos", ""), comment=given["comment"]), held=False)
        self.start_what_can()
        return f"{id_}\n"


def waiting(job: Job, reason: str, **changes: object) -> Job:
    """The job, of which Slurm says now that it waits for this reason."""
    return replace(job, reason=reason, waits_for=waits_for(reason), **changes)  # type: ignore[arg-type]
