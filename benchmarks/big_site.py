"""A large site that only exists as the texts that Slurm would print; it does at once what the daemon tells it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ClusterShell.RangeSet import RangeSet

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobRun
from freetrain.slurm.commands import Command
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import fold_nodes, parse_jobs, parse_nodes, parse_partitions, parse_reservations
from freetrain.slurm.parsing.hardware import NodeRows
from freetrain.slurm.parsing.jobs import JobRows
from freetrain.slurm.queries import NEED_FIELDS, SEPARATOR
from freetrain.slurm.site.facts import Site
from freetrain.slurm.tags import TAG_PREFIX

MARK = "0123456789abcdef"
MARGIN_S = 60.0
"""That of the daemon's default settings."""
_DAY_MIN = 1440
_SETTINGS = {
    "ClusterName": "big",
    "SLURM_VERSION": "22.05.8",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "SlurmUser": "slurm",
}
_USERS = tuple(f"user{number:02}" for number in range(50))

_NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad={load:.2f} "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr={name} NodeHostName={name} "
    "Version=22.05.8 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1000 AllocMem=0 FreeMem={free} "
    "Sockets=4 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=main,freetrain  BootTime=1795221955 SlurmdStartTime=1795236797 LastBusyTime=1795237159 "
    "CfgTRES=cpu=4,mem=1000M,billing=4 "
    "AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
)
_PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL GraceTime=0 MaxTime=7-00:00:00 "
    "Nodes={nodes} PriorityTier={tier} PreemptMode={mode} State=UP"
)


@dataclass(frozen=True, slots=True)
class Size:
    """How large a site.

    Attributes:
        nodes: all.
        lent: nodes on which fragments run.
        site_jobs: of the site's own jobs that run, two on each node that they have.
        jobs: all that squeue shows, fragments included.
        trainers: tagged arrays.
        fillers: more of them, with a thousand independent tasks each, none of which runs at first.
        hole_ends: different moments within the daemon's horizon at which nodes are wanted back.
    """

    nodes: int = 8000
    lent: int = 6000
    site_jobs: int = 2000
    jobs: int = 11_500
    trainers: int = 20
    fillers: int = 0
    hole_ends: int = 1


_NEEDS = dict.fromkeys(NEED_FIELDS, "N/A") | {
    "State": "PENDING", "NumTasks": "1", "cpus-per-task": "1", "MinMemory": "0", "tres-alloc": "cpu=1,node=1",
    "sct": "*:*:*", "mintmpdisk": "0", "oversubscribe": "NO", "Exclusive": "",
}  # fmt: skip
"""What squeue shows of a task that asks for nothing but a whole node."""


def named_in(ids: str) -> list[str]:
    """The jobs of ``7,12_[0-3,8]``."""
    found = []
    for piece in re.findall(r"[^,\[]+(?:\[[^]]*\])?", ids):
        array, _, numbers = piece.partition("_[")
        found += [f"{array}_{number}" for number in RangeSet(numbers.rstrip("]"))] if numbers else [piece]
    return found


def _needs_line(array: str) -> str:
    asked = _NEEDS | {"ArrayJobID": array}
    return "".join(f"{asked[name]:<{size}}{SEPARATOR}" for name, size in NEED_FIELDS.items()) + "\n"


@dataclass(slots=True)
class _Task:
    """A task of a trainer's array."""

    node: str = ""
    start_s: float = 0.0
    limit_min: int = _DAY_MIN
    runs: bool = False


@dataclass
class BigSite(Gateway):
    """A gateway: see :class:`freetrain.slurm.gateway.Gateway`.

    Args:
        size: how large.
        seed: what is drawn.
        now_s: its clock.

    Attributes:
        orders: how many orders it was given.
    """

    size: Size
    seed: int = 0
    now_s: float = 1_800_000_000.0
    orders: int = 0
    _texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random, self._began_s = random.Random(self.seed), self.now_s
        self._job_rows, self._node_rows = JobRows(), NodeRows()
        self._names = [f"f{number:05}" for number in range(1, self.size.nodes + 1)]
        rows, _ = parse_partitions(_partition_text(fold_nodes(self._names)))
        self._site = Site(_SETTINGS, rows)
        self._partitions = self._site.nodes_of
        self._ends = self._draw_ends()
        self._tasks = self._draw_trainers()
        self._running = self._draw_site_jobs()
        self._pending = [self._draw_pending(str(200_000 + number)) for number in range(self._pending_jobs)]

    def go_on(self, seconds: float, leaving: int, arriving: int) -> None:
        """Let time go by; then write what Slurm would print.

        Args:
            seconds: how much time.
            leaving: of how many nodes the site's own jobs end.
            arriving: nodes that a new job wants, which does not start yet.
        """
        self.now_s += seconds
        for job in sorted(self._running)[: 2 * leaving]:
            del self._running[job]
        id_ = str(900_000 + len(self._pending))
        record = _record(
            id_, id_, self._user(), "main", "PENDING", "None", self.now_s, count=arriving, priority=2 * 10**6
        )
        self._pending.append(record)
        self._texts = {
            "jobs": "".join(f"{MARK}{SEPARATOR}{record}\n" for record in self._records()),
            "nodes": "\n".join(self._node_lines()),
            "reservations": "\n".join(self._reservation_lines()),
        }

    def snapshot(self) -> Snapshot:
        """What the texts say."""
        jobs, bad_jobs = parse_jobs(self._texts["jobs"], MARK, TAG_PREFIX, self._job_rows)
        nodes, bad_nodes = parse_nodes(self._texts["nodes"], known=self._node_rows)
        reservations, bad_reservations = parse_reservations(self._texts["reservations"])
        bad = tuple(bad_jobs + bad_nodes + bad_reservations)
        return Snapshot(self.now_s, tuple(nodes), tuple(jobs), tuple(reservations), self._partitions, bad)

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """One that is safe."""
        return self._site

    def job(self, id_: str) -> list[Job]:
        """The job, as the texts show it."""
        return [job for job in self.snapshot().jobs if job.array == id_]

    def last_plan_s(self) -> float | None:
        """It never plans."""
        return None

    def runs(self, jobs: Sequence[str]) -> list[JobRun]:
        """Nothing: there is no accounting."""
        return []

    def perform(self, command: Command, stdin: str = "") -> str:
        """Do as told."""
        if command[0] == "squeue":
            return (
                "".join(map(_needs_line, sorted({id_.partition("_")[0] for id_ in self._tasks})))
                if "-O" in command
                else ""
            )
        self.orders += 1
        match command:
            case ("scontrol", "update", job, *values):
                task = self._task(job.removeprefix("JobId="))
                given = dict(value.split("=", 1) for value in values)
                task.node = given.get("ReqNodeList", task.node)
                task.limit_min = int(given["TimeLimit"])
            case ("scontrol", "release", tasks):
                for task in map(self._task, named_in(tasks)):
                    task.runs, task.start_s = True, self.now_s
            case ("scontrol", "hold" | "requeuehold", *_, tasks):
                for task in map(self._task, named_in(tasks)):
                    task.runs, task.node = False, ""
            case _:
                raise ValueError(f"nobody knows {command}")
        return ""

    @property
    def _pending_jobs(self) -> int:
        return self.size.jobs - self.size.lent - self.size.site_jobs - self.size.trainers - self.size.fillers

    def _task(self, id_: str) -> _Task:
        array, _, number = id_.partition("_")
        return self._tasks[array][int(number)]

    def _draw_ends(self) -> dict[float, list[str]]:
        """When reservations begin, each on 40 lent nodes; at the end of the daemon's margin they matter."""
        count = self.size.hole_ends - 1  # the nodes that nobody will want are the other one
        return {
            self.now_s + MARGIN_S + 30 + 80 * number / max(count, 1): self._names[40 * number : 40 * number + 40]
            for number in range(count)
        }

    def _draw_trainers(self) -> dict[str, list[_Task]]:
        """Each has half of its tasks held; a fragment's limit fits its hole already."""
        end_s = {name: time_s - MARGIN_S for time_s, names in self._ends.items() for name in names}
        tasks: dict[str, list[_Task]] = {}
        each = self.size.lent // self.size.trainers
        for number in range(self.size.trainers):
            mine = self._names[number : self.size.lent : self.size.trainers]
            tasks[str(100_000 + number)] = [_Task() for _ in range(2 * each)]
            for name, task in zip(mine, tasks[str(100_000 + number)], strict=False):
                task.node, task.runs = name, True
                task.start_s = self.now_s - self._random.randrange(1, 300) * 60
                if name in end_s:
                    task.limit_min = int((end_s[name] - task.start_s) // 60)
        fillers = {str(110_000 + number): [_Task() for _ in range(1000)] for number in range(self.size.fillers)}
        return tasks | fillers

    def _draw_site_jobs(self) -> dict[str, tuple[str, str]]:
        """Job → its node and its record."""
        running = {}
        for number in range(self.size.site_jobs):
            node = self._names[self.size.lent + number // 2]
            start_s = self.now_s - self._random.randrange(60, 80_000)
            end_s = start_s + 86_400
            id_ = str(150_000 + number)
            running[id_] = (
                node,
                _record(id_, id_, self._user(), "main", "RUNNING", "None", start_s, start_s, end_s, nodes=node),
            )
        return running

    def _draw_pending(self, id_: str) -> str:
        """Held, waiting for another job or a limit, or behind others; some are arrays.

        Who is behind others wants what cannot be lent: Slurm would have evicted fragments for it.
        """
        draw, user, count = self._random, self._user(), self._random.choice((1, 2, 4, 16, 64, 200, 500))
        reason = draw.choices(("JobHeldUser", "Priority", "Dependency", "AssocGrpCpuLimit"), (3, 5, 1, 1))[0]
        submitted_s = self.now_s - draw.randrange(60, 500_000)
        shown = f"{id_}_[{draw.choice(('0-9', '3,7-40%4', '1-99:2'))}]" if draw.random() < 0.1 else id_
        return _record(
            shown, id_, user, "main", "PENDING", reason, submitted_s,
            limit_min=draw.randrange(30, 4000), count=count,
            priority=0 if reason == "JobHeldUser" else draw.randrange(1, 10**6), comment=f"job {id_} of {user}",
            features="bigmem" if reason == "Priority" else "(null)",
        )  # fmt: skip

    def _user(self) -> str:
        return self._random.choice(_USERS)

    def _records(self) -> list[str]:
        records = [record for _, record in self._running.values()] + self._pending
        for number, (array, tasks) in enumerate(self._tasks.items()):
            owner = _USERS[number % len(_USERS)]
            most = max(len(tasks) - 10 * number, len(tasks) // 2)
            comment = TAG_PREFIX + (f"min=1,max={most}" if number < self.size.trainers else "kind=tasks")
            submitted_s = self._began_s - 20_000 + number
            held = ",".join(str(position) for position, task in enumerate(tasks) if not task.runs)
            records += [
                _record(
                    f"{array}_[{held}]", array, owner, "freetrain", "PENDING", "JobHeldUser", submitted_s,
                    priority=0, comment=comment,
                )
            ] * bool(held)  # fmt: skip
            records += (
                _record(
                    f"{array}_{position}", array, owner, "freetrain", "RUNNING", "None", submitted_s, task.start_s,
                    task.start_s + 60 * task.limit_min, task.limit_min, nodes=task.node, required=task.node,
                    comment=comment,
                )
                for position, task in enumerate(tasks)
                if task.runs
            )  # fmt: skip
        return records

    def _node_lines(self) -> list[str]:
        busy = {node for node, _ in self._running.values()}
        busy.update(task.node for tasks in self._tasks.values() for task in tasks if task.runs)
        return [
            _NODE.format(
                name=name,
                load=self._random.random() * 4,
                free=self._random.randrange(10_000),
                state="ALLOCATED" if name in busy else "IDLE",
            )
            for name in self._names
        ]

    def _reservation_lines(self) -> list[str]:
        return [
            f"ReservationName=maint_{number} StartTime={start_s:.0f} EndTime={start_s + 9e4:.0f} "
            f"Duration=1-01:00:00 Nodes={fold_nodes(names)} NodeCnt={len(names)} "
            f"Flags=MAINT,SPEC_NODES State=INACTIVE"
            for number, (start_s, names) in enumerate(self._ends.items())
        ]


def _partition_text(nodes: str) -> str:
    partitions = (("main", 10, "OFF"), ("freetrain", 1, "REQUEUE"))
    return "\n".join(
        _PARTITION.format(name=name, nodes=nodes, tier=tier, mode=mode) for name, tier, mode in partitions
    )


def _record(
    id_: str, array: str, user: str, partition: str, state: str, reason: str, submitted_s: float,
    start_s: float | None = None, end_s: float | None = None, limit_min: int = _DAY_MIN, count: int = 1,
    priority: int = 1000, nodes: str = "", required: str = "", comment: str = "(null)",
    features: str = "(null)",
) -> str:  # fmt: skip
    """One record of squeue, in the order of ``freetrain.slurm.queries.JOB_FIELDS``."""
    start, end = ("N/A" if time_s is None else f"{time_s:.0f}" for time_s in (start_s, end_s))
    days, minutes = divmod(limit_min, 1440)
    limit = f"{days}-{minutes // 60:02}:{minutes % 60:02}:00"
    fields = (
        id_, array, user, "(null)", partition, state, reason, f"{submitted_s:.0f}", start, end, limit, str(count),
        str(priority), nodes, "", required, features, "normal", "(null)", comment,
    )  # fmt: skip
    return SEPARATOR.join(fields)
