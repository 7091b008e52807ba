"""Parts of the lines of Slurm's texts: fields, times, limits, amounts, and words for nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf
from typing import Generic, TypeVar

from freetrain.core import bounds
from freetrain.core.amounts import Amount, Gres
from freetrain.durations import parse_duration

NOTHING = frozenset({"", "(null)", "N/A", "Unknown", "None", "NONE", "n/a"})
"""Slurm's words for a value that is not there."""

Row = Mapping[str, str]
"""Fields of one of Slurm's records by their names, as it shows them."""


_ParsedT = TypeVar("_ParsedT")


class KnownRows(Generic[_ParsedT]):
    """Facts of the rows of the last answer: a row that comes again is not read again, and has the same objects."""

    def __init__(self) -> None:
        self._facts: dict[str, _ParsedT] = {}

    def read(self, rows: Iterable[str], facts_of: Callable[[str], _ParsedT]) -> list[_ParsedT]:
        """The facts of all rows of an answer; those of rows that it does not have are forgotten."""
        known = self._facts
        read = [(row, known[row] if row in known else facts_of(row)) for row in rows]
        self._facts = dict(read)
        return [facts for _, facts in read]


def lines_of(text: str, beginning: str) -> Iterator[str]:
    """Lines of a text that have this beginning."""
    return (line for line in text.splitlines() if line.startswith(beginning))


def fields_of(line: str, names: Iterable[str]) -> Mapping[str, str]:
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
    return "" if text in NOTHING else text


def time_of(text: str) -> float | None:
    """Time in UTC epoch seconds; None: the text has a word for none, or something else."""
    return float(text) if text.isdecimal() and float(text) in bounds.INSTANT else None


@lru_cache(maxsize=4096)
def limit_of(text: str) -> float:
    """A limit in seconds; infinite where there is none, or none of its own.

    Raises:
        ValueError: it is no duration.
    """
    return inf if text in ("UNLIMITED", "Partition_Limit", "NOT_SET", "INVALID") else parse_duration(text, 60.0)


def count_of(text: str) -> int:
    """A count; Slurm shortens large ones: 2K.

    Raises:
        ValueError: it is none.
    """
    units = {"K": 1024, "M": 1024**2}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text.partition("-")[0])


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
        words = [word for word in item.replace("=", ":").split(":") if word != "no_consume"]
        count = 1 if item else 0
        if match := re.fullmatch(r"([0-9]+)([KMGTP]?)", words[-1]):
            count = int(match[1]) * 1024 ** " KMGTP".index(match[2] or " ")
            words.pop()
        if count:
            name = ":".join(words)
            counts[name] = counts.get(name, 0) + count
    return tuple(sorted(counts.items()))
