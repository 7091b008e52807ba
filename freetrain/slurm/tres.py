"""Slurm's lists of TRES (``cpu=4,mem=8G,gres/gpu:a100=2``) and GRES (``gpu:a100:2``) as shares. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from freetrain.core.cluster import Gres
from freetrain.core.share import Share

MIB = 1024**2
_GPU_LIKE = ("gpu", "shard", "mps")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)")
_NOT_COUNTS = re.compile(r"\(null\)|:no_consume|\((?!CNT:)[^)]*\)")
_GRES = re.compile(
    r"(?P<name>[^:(]+)(:(?P<type>[^:(]*))??(:(?P<count>\d+)(?P<unit>[KMGT]?)|\(CNT:(?P<inside>\d+)\))?"
)


def parse_tres(text: str, counted: Collection[str] = ()) -> Share:
    """What a list of TRES says.

    Of GPUs that are listed as a whole and by type, those of no listed type are left over as plain ones. What
    cannot be read is unknown.

    Args:
        text: the list; Slurm leaves out what there is nothing of.
        counted: the TRES that this Slurm counts, as in its ``AccountingStorageTRES``: what is counted and not
            listed is nothing, and what is not counted is unknown.
    """
    amounts = dict(entry.split("=", 1) for entry in text.split(",") if "=" in entry)
    return Share(
        cpus=_count(amounts.get("cpu", "0" if "cpu" in counted else "")),
        memory_bytes=_memory_bytes(amounts.get("mem", "0M" if "mem" in counted else "")),
        gpus=_gpus(amounts, any(_is_gpu_like(name.removeprefix("gres/")) for name in counted)),
    )


def show_tres(share: Share) -> str:
    """The list of TRES that says the same; what is unknown is not in it."""
    entries = [] if share.cpus is None else [f"cpu={share.cpus}"]
    if share.memory_bytes is not None:
        entries.append(f"mem={share.memory_bytes // MIB}M")
    if share.gpus is not None:
        totals: Counter[str] = Counter({"gpu": 0})
        for name, count in share.gpus:
            totals[name.partition(":")[0]] += count
        entries += [f"gres/{kind}={count}" for kind, count in totals.items()]
        entries += [f"gres/{name}={count}" for name, count in share.gpus if ":" in name]
    return ",".join(entries)


def parse_gpus(text: str) -> Gres | None:
    """The GPUs and the like in a list of GRES; None: it cannot be read.

    All of Slurm's spellings: ``gpu:a100:2(S:0-1)`` of a node, ``gpu:a100:2(IDX:0,3)`` or
    ``gpu:(null):0(IDX:N/A)`` of what is used of it, ``gpu:2(IDX:0-1)`` or ``gpu(CNT:2)`` of a job on a node.
    """
    if text in ("", "(null)", "N/A"):
        return ()
    counts: Counter[str] = Counter()
    for item in _NOT_COUNTS.sub("", text).split(","):
        if not _is_gpu_like(item.partition("(")[0]):
            continue
        match = _GRES.fullmatch(item)
        if match is None:
            return None
        name = f"{match['name']}:{match['type']}" if match["type"] else match["name"]
        counts[name] += int(match["count"] or match["inside"] or 1) * 1024 ** " KMGT".index(match["unit"] or " ")
    return _sorted(counts)


def _gpus(amounts: Mapping[str, str], are_counted: bool) -> Gres | None:
    listed = {name.removeprefix("gres/"): amount for name, amount in amounts.items() if name.startswith("gres/")}
    known = {name: _count(amount) for name, amount in listed.items() if _is_gpu_like(name)}
    if not known and not are_counted:
        return None
    counts: Counter[str] = Counter()
    for name, count in known.items():
        if count is None:
            return None
        counts[name] += count
    for kind in _GPU_LIKE:
        typed = sum(count for name, count in counts.items() if name.startswith(f"{kind}:"))
        counts[kind] = max(counts[kind] - typed, 0)
    return _sorted(counts)


def _is_gpu_like(name: str) -> bool:
    return name.partition(":")[0] in _GPU_LIKE


def _sorted(counts: Mapping[str, int]) -> Gres:
    return tuple(sorted((name, count) for name, count in counts.items() if count))


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _memory_bytes(text: str) -> int | None:
    """Without a unit it is in MiB."""
    match = _MEMORY.fullmatch(text)
    return round(float(match[1]) * 1024 ** " KMGTPE".index(match[2] or "M")) if match else None
