"""Slurm's texts as facts. Pure; what is not understood is named, and never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

from freetrain.core.amounts import Amount, Gres
from freetrain.core.cluster import Job, JobRun, JobState, Node, Nodes, Partition, Reservation
from freetrain.durations import parse_duration
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.queries import JOB_FIELDS, RUN_FIELDS, SEPARATOR
from freetrain.slurm.states import facts_of_state, job_state, unknown_job_state, waits_for

_NOTHING = frozenset({"", "(null)", "N/A", "Unknown", "None", "NONE", "n/a"})
_STATE = JOB_FIELDS.index("%T")
_NODE_FIELDS = (
    "NodeName", "State", "ActiveFeatures", "Partitions", "CPUEfctv", "CPUTot", "RealMemory", "TmpDisk", "Gres",
    "Sockets", "CoresPerSocket", "ThreadsPerCore", "CPUAlloc", "AllocMem", "GresUsed",
)  # fmt: skip
_PARTITION_FIELDS = (
    "PartitionName",
    "Nodes",
    "State",
    "PriorityTier",
    "PreemptMode",
    "GraceTime",
    "MaxTime",
    "DefMemPerCPU",
    "DefMemPerNode",
    "Default",
    "AllowAccounts",
    "DenyAccounts",
    "AllowQos",
    "DenyQos",
    "QoS",
    "TRESBillingWeights",
    "MinNodes",
    "MaxNodes",
    "MaxCPUsPerNode",
    "OverTimeLimit",
    "RootOnly",
    "ReqResv",
)


def parse_jobs(text: str, mark: str, expand: str) -> tuple[list[Job], list[str]]:
    """Jobs of ``squeue``, and what was not understood.

    A comment may hold anything, even line breaks and what looks like another job; the mark at the beginning of
    each record tells them apart. Arrays of waiting tasks come as one record; those whose comment begins with
    ``expand`` are taken apart into tasks, the others stay one job.

    Args:
        text: what squeue printed.
        mark: what each record begins with.
        expand: beginning of the comments of freetrain's own arrays.
    """
    jobs: list[Job] = []
    rejected: list[str] = []
    for record in text.split(f"{mark}{SEPARATOR}")[1:]:
        fields = record.rstrip("\n").split(SEPARATOR, len(JOB_FIELDS) - 1)
        try:
            job = _job(fields)
            jobs += tuple(tasks_of(job)) if job.comment.startswith(expand) else [job]
            rejected += [f"job {job.id[:40]!r}: {said}" for said in unknown_job_state(fields[_STATE])]
        except ValueError as error:
            rejected.append(f"job {fields[0][:40]!r}: {error}")
    return jobs, rejected


def _job(fields: list[str]) -> Job:
    if len(fields) != len(JOB_FIELDS):
        raise ValueError(f"{len(fields)} fields instead of {len(JOB_FIELDS)}")
    (id_, array, user, account, partition, state, reason, submitted, start, end, limit, count, priority, nodes,
     planned, required, features, qos, comment) = fields  # fmt: skip
    known, reason = job_state(state), "" if reason == "None" else reason
    return Job(
        id=id_,
        array=array,
        user=user,
        account=text_or_nothing(account),
        partition=partition,
        state=known,
        reason=reason,
        waits_for=waits_for(reason),
        nodes=expand_nodes(nodes),
        node_count=_count(count),
        submitted_s=_time(submitted) or 0.0,
        start_s=_time(start),
        end_s=_time(end),
        planned_nodes=expand_nodes(planned) if known is JobState.PENDING else frozenset(),
        limit_s=_limit(limit),
        priority=int(priority),
        features=text_or_nothing(features),
        qos=text_or_nothing(qos),
        required_nodes=expand_nodes(required),
        tasks=waiting_tasks(id_),
        comment=text_or_nothing(comment),
    )


def tasks_of(job: Job) -> Iterator[Job]:
    """The tasks of an array's record, ``123_[0-3,7%2]``; any other job is its own only task."""
    base, bracket, tasks = job.id.partition("_[")
    if not bracket:
        yield job
        return
    for numbers in _task_numbers(tasks):
        for task in numbers:
            yield replace(job, id=f"{base}_{task}", tasks=1)


def waiting_tasks(id_: str) -> int:
    """How many tasks an array's record stands for, no more than may run at once; 1 where nobody knows."""
    _, bracket, tasks = id_.partition("_[")
    if not bracket:
        return 1
    throttle = tasks.rstrip("]").partition("%")[2]
    try:
        count = sum(map(len, _task_numbers(tasks)))
        return max(1, min(count, int(throttle or count)))
    except ValueError:  # Slurm shortens long lists
        return 1


def _task_numbers(tasks: str) -> Iterator[range]:
    for piece in tasks.rstrip("]").partition("%")[0].split(","):
        bounds, _, step = piece.partition(":")
        first, _, last = bounds.partition("-")
        yield range(int(first), int(last or first) + 1, int(step or 1))


def parse_nodes(text: str) -> tuple[list[Node], list[str]]:
    """Nodes of ``scontrol -o show nodes``, and the lines that were not understood."""
    nodes, rejected = [], []
    for line in _lines(text, "NodeName="):
        fields = _fields(line, _NODE_FIELDS)
        if "NodeName" not in fields or "State" not in fields:
            rejected.append(f"node line without name or state: {line[:80]!r}")
            continue
        try:
            nodes.append(_node({**fields, "Reason": line.partition(" Reason=")[2]}))
        except ValueError as error:
            rejected.append(f"node line not understood ({error}): {line[:80]!r}")
    return nodes, rejected


def _node(fields: Mapping[str, str]) -> Node:
    return Node(
        name=fields["NodeName"],
        **facts_of_state(fields["State"], fields.get("Reason", "")),
        features=frozenset(filter(None, text_or_nothing(fields.get("ActiveFeatures", "")).split(","))),
        partitions=tuple(filter(None, text_or_nothing(fields.get("Partitions", "")).split(","))),
        # Cores that are set aside for the system are none of a job's.
        cpus=int(fields.get("CPUEfctv") or fields.get("CPUTot", "0")),
        memory_mb=int(fields.get("RealMemory", "0")),
        disk_mb=int(fields.get("TmpDisk", "0")),
        gres=parse_gres(text_or_nothing(fields.get("Gres", ""))),
        sockets=int(fields.get("Sockets", "0")),
        cores_per_socket=int(fields.get("CoresPerSocket", "0")),
        threads_per_core=int(fields.get("ThreadsPerCore", "0")),
        used=_used(fields),
    )


def _used(fields: Mapping[str, str]) -> Amount | None:
    """How much jobs have of a node; None where Slurm was not asked for such details."""
    if "GresUsed" not in fields:
        return None
    gres = parse_gres(text_or_nothing(fields["GresUsed"]))
    return Amount(int(fields["CPUAlloc"]), int(fields["AllocMem"]), gres)


def parse_amount(text: str) -> Amount:
    """An amount as Slurm writes one: ``cpu=4,mem=16G,gres/gpu=1``; memory without a unit counts megabytes.

    Raises:
        ValueError: it is none.
    """
    cpus, memory_mb, gres = 0, 0, []
    for item in filter(None, text.replace(" ", "").split(",")):
        name, _, count = item.partition("=")
        if name == "cpu" and count.isdigit():
            cpus = int(count)
        elif name == "mem" and re.fullmatch(r"[0-9]+(\.[0-9]+)?[MGT]?", count):
            memory_mb = int(float(count.rstrip("MGT")) * 1024 ** max(0, "MGT".find(count[-1])))
        elif name.startswith("gres/") and count.isdigit():
            gres.append(f"{name.removeprefix('gres/')}:{count}")
        else:
            raise ValueError(f"{item!r} is no amount: write cpu=4, mem=16G or gres/gpu=1, with commas between")
    return Amount(cpus, memory_mb, parse_gres(",".join(gres)))


def parse_gres(text: str) -> Gres:
    """Generic resources of ``gpu:a100:4(S:0-1),nvme:2``; equal ones are added up.

    Raises:
        ValueError: a count is not a number.
    """
    counts: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, count = _gres_item(item)
        if count:
            counts[name] = counts.get(name, 0) + count
    return tuple(sorted(counts.items()))


def _gres_item(item: str) -> tuple[str, int]:
    words = [word for word in item.replace("=", ":").split(":") if word != "no_consume"]
    match = re.fullmatch(r"([0-9]+)([KMGTP]?)", words[-1])
    if match is None:
        return ":".join(words), 1 if item else 0
    return ":".join(words[:-1]), int(match[1]) * 1024 ** " KMGTP".index(match[2] or " ")


def parse_reservations(text: str) -> tuple[list[Reservation], list[str]]:
    """Reservations of ``scontrol -o show reservation``, and the lines that were not understood."""
    reservations, rejected = [], []
    for line in _lines(text, "ReservationName="):
        fields = _fields(line, ("ReservationName", "StartTime", "EndTime", "Nodes", "Flags"))
        start_s, end_s = _time(fields.get("StartTime", "")), _time(fields.get("EndTime", ""))
        if start_s is None or end_s is None:
            rejected.append(f"reservation without times: {line[:80]!r}")
            continue
        flags = frozenset(filter(None, text_or_nothing(fields.get("Flags", "")).split(",")))
        try:
            nodes = expand_nodes(fields.get("Nodes", ""))
        except ValueError as error:
            rejected.append(f"reservation line not understood ({error}): {line[:80]!r}")
            continue
        reservations.append(Reservation(fields["ReservationName"], nodes, start_s, end_s, flags))
    return reservations, rejected


def parse_partitions(text: str) -> tuple[dict[str, Partition], list[str]]:
    """Partitions of ``scontrol -o show partition`` by name, and the lines that were not understood."""
    partitions, rejected = {}, []
    for fields in partition_fields(text):
        try:
            partitions[fields["PartitionName"]] = Partition(
                name=fields["PartitionName"],
                nodes=expand_nodes(fields.get("Nodes", "")),
                is_up=fields["State"] == "UP",
                priority_tier=int(fields["PriorityTier"]),
                preempt_mode=fields["PreemptMode"],
                grace_s=float(fields["GraceTime"]),
                max_time_s=_limit(fields["MaxTime"]),
                default_memory_mb=default_memory_mb(fields),
            )
        except (KeyError, ValueError) as error:
            rejected.append(f"partition {fields.get('PartitionName', '')[:80]!r} not understood ({error})")
    return partitions, rejected


def partition_fields(text: str) -> Iterator[Mapping[str, str]]:
    """The fields that matter of each line of ``scontrol -o show partition``."""
    return (_fields(line, _PARTITION_FIELDS) for line in _lines(text, "PartitionName="))


def default_memory_mb(fields: Mapping[str, str]) -> int:
    """What a job gets that asks for no memory, of a partition or a whole configuration; 0: no limit."""
    given = (fields.get(name, "").strip() for name in ("DefMemPerCPU", "DefMemPerNode"))
    return next((int(text) for text in given if text.isdigit()), 0)


def parse_runs(text: str) -> tuple[list[JobRun], list[str]]:
    """Runs of ``sacct -D -P -n -X``, and the lines that were not understood."""
    runs, rejected = [], []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(RUN_FIELDS):
            rejected.append(f"accounting line with {len(fields)} fields: {line[:80]!r}")
            continue
        id_, state, start, end = fields
        runs.append(JobRun(id_, job_state(state), _time(start), _time(end)))
    return runs, rejected


def parse_cancellers(text: str) -> frozenset[int]:
    """Who cancelled, as numbers of users, from what ``ask_who_cancelled`` printed."""
    return frozenset(map(int, re.findall(r"^CANCELLED by ([0-9]{1,10})\b", text, re.MULTILINE)))


def parse_preemptions(text: str) -> Mapping[str, float]:
    """Job → when it was asked to leave, of those that were, from what ``ask_preemptions`` printed.

    Raises:
        SlurmUnclearError: it is not such a table; a preempted fragment would be taken for one that has completed.
    """
    header, *rows = [line.split() for line in text.splitlines()] or [[]]
    if "PREEMPT_TIME" not in header or not text.endswith("\n"):
        raise SlurmUnclearError("squeue -O PreemptTime", f"it begins with {text[:80]!r}")
    return {row[0]: at_s for row in rows if len(row) == 2 and (at_s := _time(row[1])) is not None}


@lru_cache(maxsize=65536)
def expand_nodes(text: str) -> Nodes:
    """The nodes of a list such as ``c[01-16,20]``; the same lists come again in every cycle.

    Raises:
        ValueError: it is no list of nodes.
    """
    if text in _NOTHING:
        return frozenset()
    if "[" not in text and "," not in text:
        return frozenset((text,))
    try:
        return frozenset(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as error:
        raise ValueError(f"no list of nodes: {text[:60]!r}") from error


def fold_nodes(names: Iterable[str]) -> str:
    """The shortest list of these nodes."""
    return str(NodeSet.fromlist(sorted(names), resolver=RESOLVER_NOGROUP))


def _lines(text: str, beginning: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith(beginning))


def _fields(line: str, names: Iterable[str]) -> Mapping[str, str]:
    """The first field of each name; free text (reason, comment) comes last in Slurm's lines."""
    line = f" {line} "
    fields = {}
    for name in names:
        before = f" {name}="
        at = line.find(before)
        if at >= 0:
            at += len(before)
            fields[name] = line[at : line.index(" ", at)]
    return fields


def text_or_nothing(text: str) -> str:
    """The text, or nothing where Slurm has a word for nothing."""
    return "" if text in _NOTHING else text


def _time(text: str) -> float | None:
    return float(text) if text.isdigit() else None


@lru_cache(maxsize=4096)
def _limit(text: str) -> float:
    return inf if text in ("UNLIMITED", "Partition_Limit", "NOT_SET", "INVALID") else parse_duration(text, 60.0)


def _count(text: str) -> int:
    """Slurm shortens large counts: 2K."""
    units = {"K": 1024, "M": 1024**2}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text.partition("-")[0])
