"""What nodes have, and what jobs ask for and hold of them, from Slurm's texts and from pyslurm. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ClusterShell.RangeSet import RangeSet, RangeSetException

from freetrain.core.cluster import Gres, Nodes
from freetrain.core.share import JobShare, NodeShare, Share
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.tres import MIB, parse_gpus, parse_tres

NODE_FIELDS = (
    "name", "effective_cpus", "total_cpus", "real_memory", "memory_reserved_for_system", "configured_gres",
    "allocated_cpus", "allocated_memory", "allocated_tres",
)  # fmt: skip
"""What of pyslurm's nodes tells their shares."""
_GROUPS_BEGIN, _GROUPS_END = (" CoreSpec=", " ThreadSpec="), " MinCPUsNode="
_LISTS = ("ReqTRES", "AllocTRES", "TRES")
_NOTHING = (None, "", "(null)")


def parse_node_shares(text: str, counted: Collection[str]) -> dict[str, NodeShare]:
    """Nodes of ``scontrol -o show nodes`` by name; with ``-d`` it tells which GPUs are held, whatever is counted.

    Args:
        text: what scontrol printed.
        counted: the TRES that this Slurm counts.
    """
    lines = (line for line in text.splitlines() if line.startswith("NodeName="))
    return {line.removeprefix("NodeName=").partition(" ")[0]: _node_share(line, counted) for line in lines}


def node_share_of(record: Mapping[str, Any], counted: Collection[str]) -> NodeShare:
    """The same of pyslurm's record of a node, which has the ``NODE_FIELDS``."""
    gres = ",".join(f"{name}:{count}" for name, count in (record["configured_gres"] or {}).items())
    tres = ",".join(f"{name}={amount}" for name, amount in (record["allocated_tres"] or {}).items())
    cpus = record["effective_cpus"] or record["total_cpus"]
    memory_mib, reserved_mib = record["real_memory"], record["memory_reserved_for_system"] or 0
    configured = Share(cpus, None if memory_mib is None else (memory_mib - reserved_mib) * MIB, parse_gpus(gres))
    allocated = Share(
        record["allocated_cpus"],
        _bytes(record["allocated_memory"]),
        _named(parse_tres(tres, counted).gpus, configured.gpus),
    )
    return NodeShare(configured, allocated)


def _node_share(line: str, counted: Collection[str]) -> NodeShare:
    # Reasons and comments are free text, and stand last.
    memory_mib, reserved_mib = _number(line, "RealMemory"), _number(line, "MemSpecLimit") or 0
    configured = Share(
        _number(line, "CPUEfctv") or _number(line, "CPUTot"),
        None if memory_mib is None else (memory_mib - reserved_mib) * MIB,
        parse_gpus(_first(line, "Gres")),
    )
    used = _first(line, "GresUsed")
    gpus = parse_gpus(used) if used else parse_tres(_first(line, "AllocTRES"), counted).gpus
    memory_mib = _number(line, "AllocMem")
    return NodeShare(
        configured, Share(_number(line, "CPUAlloc"), _bytes(memory_mib), _named(gpus, configured.gpus))
    )


def _named(used: Gres | None, configured: Gres | None) -> Gres | None:
    """The used GPUs by type where the node has one type only; none where it has no GPUs."""
    if configured == ():
        return ()
    if configured is None or used is None:
        return used
    of_kind: defaultdict[str, list[str]] = defaultdict(list)
    for name, _ in configured:
        of_kind[name.partition(":")[0]].append(name)
    return tuple(sorted((of_kind[name][0] if len(of_kind[name]) == 1 else name, count) for name, count in used))


def parse_job_share(line: str, counted: Collection[str]) -> JobShare:
    """A job of ``scontrol -d -o show job``.

    Its name and its comment may hold anything, and so look like fields: a field that stands there more than once
    is unknown.

    Args:
        line: the job's line.
        counted: the TRES that this Slurm counts.
    """
    has_nodes = _once(line, "NodeList") not in _NOTHING
    asked, held, either = (_once(line, name) for name in _LISTS)
    if " TRES=" in line:
        # Slurm 22.05 has one list: what a job holds, or, while it has no nodes, what it asks for.
        asked, held = (None, either) if has_nodes else (either, None)
        if any(f" {name}=" in line for name in _LISTS[:2]):
            asked = held = None
    return JobShare(_listed(asked, counted), _listed(held, counted), dict(_by_node(line)) if has_nodes else {})


def _listed(text: str | None, counted: Collection[str]) -> Share:
    return Share() if text is None or text in _NOTHING else parse_tres(text, counted)


def _by_node(line: str) -> Iterator[tuple[str, Share]]:
    """Between two other fields: ``Nodes=n[1-2] CPU_IDs=0-3 Mem=1000 GRES=gpu:a100:1(IDX:0)``, once or more."""
    begin = [(mark, parts) for mark in _GROUPS_BEGIN if len(parts := line.split(mark)) == 2]
    if len(begin) != 1 or line.count(_GROUPS_END) != 1:
        return
    region = begin[0][1][1].partition(_GROUPS_END)[0]
    for group in region.split(" Nodes=")[1:]:
        nodes, _, rest = group.partition(" ")
        share = Share(
            _cpu_count(_first(rest, "CPU_IDs")), _bytes(_number(rest, "Mem")), parse_gpus(_first(rest, "GRES"))
        )
        for node in _nodes(nodes):
            yield node, share


def _nodes(text: str) -> Nodes:
    try:
        return expand_nodes(text)
    except ValueError:
        return frozenset()


def _cpu_count(text: str) -> int | None:
    try:
        return len(RangeSet(text)) or None
    except RangeSetException:
        return None


def _first(line: str, name: str) -> str:
    """The first field of this name; empty: there is none."""
    return f" {line} ".partition(f" {name}=")[2].partition(" ")[0]


def _once(line: str, name: str) -> str | None:
    """The only field of this name; None: there is none, or several."""
    parts = line.split(f" {name}=")
    return parts[1].partition(" ")[0] if len(parts) == 2 else None


def _number(line: str, name: str) -> int | None:
    text = _first(line, name)
    return int(text) if text.isdecimal() else None


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB
