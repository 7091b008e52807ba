"""What every line of Slurm's texts is made of: fields, times, limits, counts, and words for nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf

from freetrain.core import bounds
from freetrain.durations import parse_duration

NOTHING = frozenset({"", "(null)", "N/A", "Unknown", "None", "NONE", "n/a"})
"""Slurm's words for what is not there."""


def lines_of(text: str, beginning: str) -> Iterator[str]:
    """The lines that begin so."""
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
    """UTC epoch seconds; None: Slurm says that there is none, or something else."""
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
