"""Requests of the tasks in a partition for their nodes, as squeue shows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from freetrain.core.amounts import Amount, Gres, count_gres
from freetrain.core.job import Asked
from freetrain.core.needs import Needs
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.parsing.words import Row, parse_gres, text_or_nothing, time_of
from freetrain.slurm.queries import NEED_FIELDS, SEPARATOR

_BY_EXCLUSIVE = {"NODE": True, "NO": False}
_BY_OVER_SUBSCRIBE = {"NO": True, "OK": False, "YES": False}


def has_whole_nodes(row: Row) -> bool | None:
    """Whether nobody else's job may be on the nodes of this job; None: that is not clear.

    Up to 25.11 OverSubscribe=NO means whole nodes. Since 26.05 it is also shown of jobs that share nodes without
    sharing CPUs, which are nearly all, and Exclusive decides. A node for the jobs of one user, label or block of
    switches (USER, MCS, TOPO) is neither shared with anybody nor surely whole.
    """
    exclusive = row["Exclusive"]
    return _BY_EXCLUSIVE.get(exclusive) if exclusive else _BY_OVER_SUBSCRIBE.get(row["oversubscribe"])


_FACTORS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}

# A fragment would have these until it ends by itself, although the site's jobs may wait for them.
_HELD_BACK = {"Licenses": "licences", "BurstBuffer": "a burst buffer"}


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Request of one task of an array, or of a job.

    Attributes:
        needs: its needs of its node, but for features, which come with the jobs.
        requeues: whether Slurm requeues it when it preempts it; otherwise it is cancelled, and its work lost.
        begin_s: time before which it must not begin, UTC epoch seconds; 0: at once.
    """

    needs: Needs = field(default_factory=Needs)
    requeues: bool = True
    begin_s: float = 0.0


def parse_requests(asked: str, excluded: str, default_memory_mb: int) -> Mapping[str, TaskSpec]:
    """Array or job → request of one of its tasks, from the answers to ``ask_needs`` and ``ask_excluded_nodes``.

    A job that asks for no memory is shown to ask for ``default_memory_mb``; 0: nothing.
    """
    rows = _rows(asked)
    forbidden = dict(line.split(SEPARATOR, 1) for line in excluded.splitlines() if SEPARATOR in line)
    return {
        id_: TaskSpec(
            _needs(row, forbidden.get(id_, ""), default_memory_mb),
            row["Requeue"] != "0",
            time_of(row["EligibleTime"]) or 0.0,
        )
        for id_, row in rows.items()
    }


def parse_asks(asked: str, shares_out_memory: bool = True) -> Mapping[str, Asked]:
    """Array or job → its request for its nodes, or its part of them, from the answer to ``ask_needs_of``."""
    return {id_: _asked(row, shares_out_memory) for id_, row in _rows(asked).items()}


def _asked(row: Row, shares_out_memory: bool) -> Asked:
    """Request of a job; if it may not share its nodes, or that is unclear, it counts as wanting all of them."""
    if any(len(text) >= NEED_FIELDS[name] for name, text in row.items()):
        return Asked()
    try:
        part = _part(row) if has_whole_nodes(row) is False else None
        # Where Slurm does not share out memory, a job is shown to have all of a node's and takes none.
        if part is not None and not shares_out_memory:
            part = replace(part, memory_mb=0)
        return Asked(part, _least(row, shares_out_memory) if part is None else None, _total(row))
    except (ValueError, KeyError):
        return Asked()


def _part(row: Row) -> Amount:
    """Amount of each node; of the one that has most, where its tasks cannot be spread evenly."""
    nodes, tasks = max(_given(row, "node"), 1), _number(row["NumTasks"]) or 1
    gres = _gres_on_node(row, tasks, lambda count: -(-count // nodes))
    cpus = max(-(-_given(row, "cpu") // nodes), _cpus_by_gpu(row, gres), 1)
    return Amount(cpus, -(-_given(row, "mem") // nodes), gres)


def _least(row: Row, shares_out_memory: bool) -> Amount:
    """Amount that each node must have at least: room for one task, and its part of what is asked for in all."""
    nodes = max(_given(row, "node"), 1)
    # Memory as asked for: what Slurm gives where nothing is asked for is the default, or all of some node.
    memory_mb = _megabytes(row["MinMemory"]) if shares_out_memory else 0
    gres = _gres_on_node(row, 1, lambda count: count // nodes)
    return Amount(_number(row["cpus-per-task"]) or 1, memory_mb, gres)


def _gres_on_node(row: Row, tasks: int, spread: Callable[[int], int]) -> Gres:
    """Generic resources of one node; ``spread`` gives its part of those asked for all nodes together."""
    sockets = _number(row["sct"].split(":")[0]) or 1
    together = _sum(_gres(row["tres-per-job"]), _times(_gres(row["tres-per-task"]), tasks))
    each = tuple((name, spread(count)) for name, count in together)
    return _sum(_gres(row["tres-per-node"]), each, _times(_gres(row["tres-per-socket"]), sockets))


def _total(row: Row) -> Amount:
    """Amount of all nodes together; generic resources are shown where the site accounts for them."""
    found = dict(re.findall(r"\bgres/([^=,]+)=(\d+)", row["tres-alloc"]))
    # Those with a type may be shown twice, the second time among all types.
    once = {name: count for name, count in found.items() if ":" not in name or name.partition(":")[0] not in found}
    gres = parse_gres(",".join(f"{name}:{count}" for name, count in once.items()))
    return Amount(_given(row, "cpu"), _given(row, "mem"), gres)


def _rows(asked: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in asked.splitlines():
        fields = line.split(SEPARATOR)
        # A separator stands behind each
        if len(fields) <= len(NEED_FIELDS):
            continue
        row = {name: text.strip() for name, text in zip(NEED_FIELDS, fields, strict=False)}
        # A task that waits counts before others: what Slurm shows of a running one is what it got.
        if row["ArrayJobID"] not in rows or row["State"] == "PENDING":
            rows[row["ArrayJobID"]] = row
    return rows


def _needs(row: Row, excluded: str, default_memory_mb: int) -> Needs:
    if held := [what for name, what in _HELD_BACK.items() if text_or_nothing(row[name])]:
        return Needs(held_back=" and ".join(held))
    cut = [name for name, text in row.items() if len(text) >= NEED_FIELDS[name]]
    if cut:
        return Needs(unclear=f"Slurm shows only part of its {', '.join(cut)}")
    try:
        return replace(_understood(row, default_memory_mb), excluded=expand_nodes(excluded.strip()))
    except (ValueError, KeyError) as error:
        return Needs(unclear=f"what Slurm says of it is not understood ({error})")


def _understood(row: Row, default_memory_mb: int) -> Needs:
    # Those of a task that had several the last time, unless it never ran
    nodes = max(_in_all(row, "node"), 1)
    tasks, each = -(-(_number(row["NumTasks"]) or 1) // nodes), _number(row["cpus-per-task"]) or 1
    sockets, cores, threads = (_number(text) for text in row["sct"].split(":"))
    per_task, per_socket = _gres(row["tres-per-task"]), _gres(row["tres-per-socket"])
    per_job, per_node = _gres(row["tres-per-job"]), _gres(row["tres-per-node"])
    on_one = tuple((name, -(-count // nodes)) for name, count in per_job)
    gres = _sum(per_node, on_one, _times(per_task, tasks), _times(per_socket, sockets or 1))
    least_mb = _megabytes(row["MinMemory"])
    # Otherwise it asks for no memory by itself, or for all that there is.
    asks_for_memory = bool(text_or_nothing(row["mem-per-tres"])) or least_mb not in (0, default_memory_mb)
    binds_gpus = per_task or per_socket or (per_job and tasks > 1)
    binds_cpus = "it binds CPUs to GPUs" if text_or_nothing(row["cpus-per-tres"]) else ""
    return Needs(
        gres=gres,
        cpus=tasks * each,
        processes=tasks,
        memory_mb=(_in_all(row, "mem") // nodes or least_mb) if asks_for_memory else 0,
        given_cpus=max(_cpus_by_gpu(row, gres), _in_all(row, "cpu") // nodes),
        given_memory_mb=_in_all(row, "mem") // nodes,
        disk_mb=_megabytes(row["mintmpdisk"]),
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        # Where that is not clear it is ordered to ask for all of a node
        is_whole=has_whole_nodes(row) is True,
        # Slurm finds no node for such a task that asks for all CPUs of it.
        in_parts="it binds GPUs to tasks or sockets" if binds_gpus else binds_cpus,
    )


def _in_all(row: Row, name: str) -> int:
    """Nodes, CPUs or megabytes of memory that Slurm will give a waiting task; 0: it does not show them."""
    return _given(row, name) if row["State"] == "PENDING" else 0


def _given(row: Row, name: str) -> int:
    """Nodes, CPUs or megabytes that Slurm gives a job, or has given it, on all nodes together; 0: not shown."""
    found = re.search(rf"\b{name}=([0-9.]+[KMGTP]?)", row["tres-alloc"])
    return _megabytes(found[1]) if found else 0


def _cpus_by_gpu(row: Row, gres: Gres) -> int:
    return sum(each * count_gres(gres, name) for name, each in _gres(row["cpus-per-tres"]))


def _gres(text: str) -> Gres:
    # Slurm 22.05 writes ``gres:gpu:4``, later ones ``gres/gpu:4``, and ``cpu:2`` of other things beside them.
    items = re.findall(r"(?:^|,)gres[:/]([^,]+)", text_or_nothing(text))
    return parse_gres(",".join(item for item in items if item != "none"))


def _times(gres: Gres, factor: int) -> Gres:
    return tuple((name, count * factor) for name, count in gres)


def _sum(*parts: Gres) -> Gres:
    return parse_gres(",".join(f"{name}:{count}" for part in parts for name, count in part))


def _megabytes(text: str) -> int:
    """Megabytes of ``4096M`` or ``4G``; a bare number counts megabytes."""
    match = re.fullmatch(r"([0-9.]{1,18})([KMGTP]?)[nc]?", text_or_nothing(text) or "0")
    if match is None:
        raise ValueError(f"{text[:20]!r} is not an amount of memory")
    return int(float(match[1]) * _FACTORS[match[2] or "M"])


def _number(text: str) -> int:
    """Number that is asked for; 0: nothing is, as in ``*:2:*``."""
    return 0 if text in ("*", "N/A", "") else int(text)
