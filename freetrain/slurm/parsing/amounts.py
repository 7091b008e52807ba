"""Amounts of CPUs, memory and generic resources as Slurm writes them. Pure."""

from __future__ import annotations

import re

from freetrain.core.amounts import Amount, Gres


def parse_amount(text: str) -> Amount:
    """An amount as Slurm writes one: ``cpu=4,mem=16G,gres/gpu=1``; memory without a unit counts megabytes.

    Raises:
        ValueError: it is none.
    """
    cpus, memory_mb, gres = 0, 0, []
    for item in filter(None, text.replace(" ", "").split(",")):
        name, _, count = item.partition("=")
        if name == "cpu" and count.isdecimal():
            cpus = int(count)
        elif name == "mem" and re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?[MGT]?", count):
            memory_mb = int(float(count.rstrip("MGT")) * 1024 ** max(0, "MGT".find(count[-1])))
        elif name.startswith("gres/") and count.isdecimal():
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
