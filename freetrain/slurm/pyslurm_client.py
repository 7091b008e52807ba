"""The door through pyslurm: one question instead of four, no texts to parse.

Its records become facts equal to those that :mod:`freetrain.slurm.parsing` makes of Slurm's texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, TypeVar

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobState
from freetrain.core.node import Node, Partition, Reservation
from freetrain.durations import show_duration
from freetrain.guest.channel import QuestionEnd
from freetrain.guest.guest import Guest
from freetrain.slurm import pyslurm_records, queries
from freetrain.slurm.answers import check_not_empty
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import PyslurmUnusableError, SlurmMissingError, SlurmUnreachableError, explain
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.parsing.jobs import max_running_of, tasks_of, waiting_tasks
from freetrain.slurm.parsing.words import text_or_nothing
from freetrain.slurm.pyslurm_records import WANTED
from freetrain.slurm.states import facts_of_state, job_state, shared_limit_of, unknown_job_state, waits_for
from freetrain.slurm.tags import TAG_PREFIX

PyslurmRecord = Mapping[str, Any]
Answer = Mapping[str, Sequence[PyslurmRecord]]
"""Records by collection, their fields named as in :data:`freetrain.slurm.pyslurm_records.WANTED`."""

_Fact = TypeVar("_Fact")
_UNLIMITED = "UNLIMITED"
# pyslurm makes words of the two highest numbers, which squeue prints as they are.
_PRIORITY_WORDS: Mapping[Any, int] = {None: 0xFFFFFFFE, _UNLIMITED: 0xFFFFFFFF}
_PURGE = 20
# Bits of slurm.h in scontrol's words; pyslurm has other names for some, none for others, and tells apart how often
# one comes again.
_RESERVATION_FLAGS = {
    0: "MAINT", 6: "IGNORE_JOBS", 8: "ANY_NODES", 10: "STATIC", 12: "PART_NODES", 14: "OVERLAP", 15: "SPEC_NODES",
    17: "TIME_FLOAT", 18: "REPLACE", 19: "ALL_NODES", 25: "FLEX", 29: "NO_HOLD_JOBS_AFTER_END", 30: "REPLACE_DOWN",
    32: "MAGNETIC", 39: "USER_DELETE", 42: "FORCE_START",
}  # fmt: skip


def snapshot_of(answer: Answer, time_s: float, expand: str) -> Snapshot:
    """The facts of a whole answer; a record that makes no sense is named, and the rest is used."""
    rejected: list[str] = []

    def facts(collection: str, convert: Callable[[PyslurmRecord], _Fact]) -> list[_Fact]:
        understood = []
        for record in answer[collection]:
            try:
                understood.append(convert(record))
            except (KeyError, TypeError, ValueError) as error:
                which = record.get("name", record.get("id"))
                rejected.append(f"{which!r} of {collection} not understood: {error!r}")
        return understood

    jobs = facts("Jobs", lambda record: _job(record, time_s))
    rejected += [
        f"job {record['id']!r}: {problem}"
        for record in answer["Jobs"]
        for problem in unknown_job_state(str(record.get("state")))
    ]
    partitions = facts("Partitions", _partition)
    return Snapshot(
        time_s,
        tuple(facts("Nodes", _node)),
        tuple(task for job in jobs for task in (tasks_of(job) if job.comment.startswith(expand) else [job])),
        tuple(facts("Reservations", _reservation)),
        {partition.name: partition for partition in partitions},
        tuple(rejected),
    )


def _job(record: PyslurmRecord, now_s: float) -> Job:
    state = job_state(record["state"])
    limit, end_s = record["time_limit"], record["end_time"]
    id_ = _job_id(record)
    reason = text_or_nothing(record["state_reason"] or "")
    # As a command prints it: one kind of line end, and none at the end. Both doors must give equal facts.
    comment = (record["comment"] or "").replace("\r\n", "\n").replace("\r", "\n")
    priority = record["priority"]
    return Job(
        id=id_,
        array=str(record["array_id"] or record["id"]),
        user=record["user_name"],
        account=text_or_nothing(record["account"] or ""),
        partition=record["partition"],
        qos=record["qos"] or "",
        state=state,
        reason=reason,
        waits_for=waits_for(reason),
        nodes=expand_nodes(record["allocated_nodes"] or ""),
        node_count=record["num_nodes"] or 0,
        submitted_s=float(record["submit_time"] or 0),
        start_s=_time(record["start_time"]),
        # Slurm invents a far end for a job without a limit.
        end_s=None if limit is None and end_s is not None and end_s > now_s else _time(end_s),
        planned_nodes=expand_nodes(record["scheduled_nodes"] or "") if state is JobState.PENDING else frozenset(),
        limit_s=_minutes(limit),
        priority=int(_PRIORITY_WORDS.get(priority, priority)),
        features=text_or_nothing(",".join(record["constraints"])),
        required_nodes=expand_nodes(record["required_nodes"] or ""),
        tasks=waiting_tasks(id_),
        limit=shared_limit_of(reason) if state is JobState.PENDING else None,
        dependency=_dependency(record["dependencies"]),
        max_running=max_running_of(id_),
        comment=text_or_nothing(comment.rstrip("\n")),
    )


def _job_id(record: PyslurmRecord) -> str:
    """Job id: ``123``, ``123_4``, ``123_[5-9%2]`` of tasks that wait together, ``123+1`` in a mixed job."""
    array, waiting = record["array_id"], record["array_tasks_waiting"]
    if array is None:
        whole, part = record["heterogeneous_id"], record["heterogeneous_offset"]
        return f"{record['id']}" if whole is None else f"{whole}+{part or 0}"
    if waiting is None:
        # None of task 0, and of a rest of the array that was cancelled while it waited.
        task = record["array_task_id"]
        is_rest = record["id"] == array and job_state(record["state"]).is_final and not record["allocated_nodes"]
        return f"{array}" if task is None and is_rest else f"{array}_{task or 0}"
    throttle = record["array_tasks_parallel"]
    return f"{array}_[{waiting}]" if throttle is None else f"{array}_[{waiting}%{throttle}]"


def _dependency(jobs_by_kind: PyslurmRecord | None) -> str:
    """Dependency as Slurm writes it, ``afterok:12:13``; empty: none."""
    if jobs_by_kind is None:
        return ""
    kinds = (
        f"{kind}:{':'.join(map(str, jobs))}"
        for kind, jobs in jobs_by_kind.items()
        if isinstance(jobs, list) and jobs
    )
    # pyslurm lists no jobs for a singleton that still waits.
    return ",".join(kinds) or "singleton"


def _node(record: PyslurmRecord) -> Node:
    return Node(
        name=record["name"],
        **facts_of_state(record["state"], record["reason"] or ""),
        features=frozenset(record["active_features"]),
        partitions=tuple(record["partitions"]),
        cpus=record["effective_cpus"] or record["total_cpus"],
        memory_mb=record["real_memory"] or 0,
        disk_mb=record["temporary_disk"] or 0,
        gres=tuple(sorted((record["configured_gres"] or {}).items())),
        sockets=record["sockets"] or 0,
        cores_per_socket=record["cores_per_socket"] or 0,
        threads_per_core=record["threads_per_core"] or 0,
    )


def _reservation(record: PyslurmRecord) -> Reservation:
    flags = {name for bit, name in _RESERVATION_FLAGS.items() if record["flags"] >> bit & 1}
    if record["flags"] >> _PURGE & 1:
        flags.add(f"PURGE_COMP={show_duration(record['purge_time'])}" if record["purge_time"] else "PURGE_COMP")
    if record["reoccurrence"] != "NO":
        flags.add(record["reoccurrence"])
    nodes = expand_nodes(record["nodes"] or "")
    start_s, end_s = float(record["start_time"]), float(record["end_time"])
    return Reservation(record["name"], nodes, start_s, end_s, frozenset(flags))


def _partition(record: PyslurmRecord) -> Partition:
    # For what is not set pyslurm has the word UNLIMITED, or None.
    defaults = (record["default_memory_per_cpu"], record["default_memory_per_node"])
    return Partition(
        name=record["name"],
        nodes=expand_nodes(record["nodes"] or ""),
        is_up=record["state"] == "UP",
        priority_tier=record["priority_tier"] or 0,
        preempt_mode=record["preempt_mode"],
        grace_s=float(record["preemption_grace_time"] or 0),
        max_time_s=_minutes(record["max_time"]),
        default_memory_mb=next((megabytes for megabytes in defaults if isinstance(megabytes, int)), 0),
    )


def _time(seconds: int | None) -> float | None:
    return None if seconds is None else float(seconds)


def _minutes(minutes: int | str | None) -> float:
    return inf if minutes is None or minutes == _UNLIMITED else int(minutes) * 60.0


OLDEST = (25, 11)
"""The first pyslurm that freetrain has been tried with."""

_SLURMS_OWN = "Install the pyslurm of Slurm's own version"


class PyslurmGuest:
    """pyslurm in a process of its own, which is started at the first question, and again where it has ended."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._guest = Guest(memory_bytes=None, patience_s=0.0, rest_s=0.0)
        self.version = ""

    def start(self) -> None:
        """Find out the version of pyslurm, unless it is known.

        Raises:
            SlurmUnreachableError: it does not come up.
            SlurmMissingError: there is no Slurm configuration here.
            PyslurmUnusableError: pyslurm cannot be used here.
        """
        if not self.version:
            version: str = self._ask(pyslurm_records.version)
            if not _is_known(version):
                what = f"pyslurm {version} is older than {OLDEST[0]}.{OLDEST[1]}."
                raise _unusable(what, "Install a newer one")
            self.version = version

    def ask(self, *collections: str) -> Answer:
        """The records of some of pyslurm's collections: :data:`freetrain.slurm.pyslurm_records.WANTED`.

        Raises:
            SlurmUnreachableError: there is no answer; the sentence gives the reason.
            SlurmMissingError: there is no Slurm configuration here.
            PyslurmUnusableError: pyslurm cannot be used here.
        """
        self.start()
        answer = json.loads(self._ask(pyslurm_records.load, *collections))
        return {
            name: [dict(zip(WANTED[name], record, strict=True)) for record in answer[name]] for name in collections
        }

    def close(self) -> None:
        """End the process; another question starts it again."""
        self._guest.close()

    def _ask(self, function: Callable[..., str], *arguments: str) -> Any:
        name = f"{function.__module__}:{function.__name__}"
        report = self._guest.ask(name, *arguments, time_s=self._timeout_s)
        if report.ending is QuestionEnd.ANSWERED:
            return report.answer
        what = report.message
        if report.ending is QuestionEnd.RAISED and not self.version:
            raise _unusable(f"pyslurm cannot be imported; it {what}", _SLURMS_OWN)
        if report.ending is QuestionEnd.RAISED and "version" in what.lower():
            what = f"pyslurm {self.version} and Slurm's controller do not understand each other; it {what}"
            raise _unusable(what, _SLURMS_OWN)
        known = explain("pyslurm", what)
        if isinstance(known, SlurmMissingError):
            raise known
        hint = "See whether slurmctld runs, and whether SLURM_CONF names a file that is there."
        raise SlurmUnreachableError(f"Slurm does not answer pyslurm, which {what}.", hint)


def _unusable(what: str, mend: str) -> PyslurmUnusableError:
    return PyslurmUnusableError(what, f"{mend}, or set slurm.backend to 'cli', which works with every Slurm.")


def _is_known(version: str) -> bool:
    numbers = version.split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= OLDEST


class PyslurmClient(CommandLine):
    """Gateway that asks pyslurm for the cluster, and Slurm's commands for everything else.

    Orders stay with the commands, because pyslurm's are silent about some refusals and crash on others; what
    accounting remembers too, because pyslurm hides the earlier runs of a requeued job.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.pyslurm = PyslurmGuest(timeout_s)
        self._pyslurm_was_away = False

    def snapshot(self) -> Snapshot:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        if self._pyslurm_was_away:
            # A ping fails at once where nobody is there, pyslurm after ten seconds.
            self.perform(queries.PING)
        # Until there is an answer: what follows may raise anything.
        self._pyslurm_was_away = True
        self.calls += len(WANTED)
        answer = self.pyslurm.ask(*WANTED)
        self._pyslurm_was_away = False
        found = snapshot_of(answer, self._clock_s(), TAG_PREFIX)
        check_not_empty(found)
        return found

    def job(self, id_: str) -> list[Job]:
        """See :class:`freetrain.slurm.gateway.Gateway`; pyslurm's question for one job alone is no cheaper."""
        return [task for job in self.snapshot().jobs if job.array == id_ for task in tasks_of(job)]
