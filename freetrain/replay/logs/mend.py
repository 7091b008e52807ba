"""Mending sacct rows that free text has broken.

sacct escapes nothing. A newline in a job's name or comment cuts its row in two; a pipe adds a field. Such lines
have the wrong number of separators: too few, and the row goes on in the lines below; too many, and some free-
text column owns the surplus. Where both come together the number may be right by chance; the fields are not
then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from freetrain.replay.logs.rows import Lines

_MOST_LINES_PER_ROW = 2000
_MOST_ENDS_TRIED = 5
_MOST_SURPLUS_SHARED = 40

Fits = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a row of the file should look.

    Attributes:
        width: number of columns.
        trailing: each row ends with a separator (``sacct -p``).
        free: positions of columns known for free text.
        unread: positions of columns that nothing is read from; surplus does no harm there either.
        checks: (position, test) of columns whose content tells whether a row was split rightly, by position.
        hangs_below: the last column holds free text, so text after a newline in it looks like a line of its own.
        begins: whether a line with these fields begins as rows do; None where the first columns cannot tell.
    """

    width: int
    trailing: bool
    free: tuple[int, ...]
    unread: tuple[int, ...]
    checks: tuple[tuple[int, Fits], ...]
    hangs_below: bool
    begins: Callable[[list[str]], bool | None]

    @property
    def separators(self) -> int:
        """Separators in a sound row."""
        return self.width - 1 + int(self.trailing)


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of the lines with a wrong number of separators.

    Attributes:
        line: first line of each mended row, numbered from 0.
        fields: its fields.
        lost: (line, reason) of each row that could not be mended.
    """

    line: list[int] = field(default_factory=list)
    fields: list[list[str]] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)


def mend(lines: Lines, broken: NDArray[np.int64], layout: Layout) -> Mended:
    """Mend what can be mended of the broken lines (ascending), by their separators or by their fields."""
    mended = Mended()
    runs = _Runs(lines, broken, layout.separators)
    at = 0
    while at < len(broken):
        line, separators = int(broken[at]), int(lines.separators[broken[at]])
        blank = separators == 0 and not lines.text(line).strip()
        found = None if blank else _mend_at(runs, at, layout)
        if found:
            mended.line.append(line)
            mended.fields.append(found[0])
        elif not blank and not (layout.hangs_below and separators == 0):
            mended.lost.append((line, _wrong_count(separators, layout)))
        at += found[1] if found else 1
    return mended


@dataclass(frozen=True, slots=True)
class _Runs:
    """Broken lines, with what is needed to join neighbours without looking at each of them again."""

    lines: Lines
    broken: NDArray[np.int64]
    expected: int
    total: NDArray[np.int64] = field(init=False)
    run_end: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        counts = self.lines.separators[self.broken]
        object.__setattr__(self, "total", np.concatenate([[0], np.cumsum(counts)]))
        # One with separators enough is here because its fields are not what they should be.
        short = counts <= self.expected
        # A run ends where the next line is sound, or broken by too many separators.
        goes_on = short[1:] & short[:-1] & (np.diff(self.broken) == 1)
        ends = np.append(np.flatnonzero(~goes_on) + 1, len(self.broken))
        object.__setattr__(self, "run_end", ends[np.searchsorted(ends, np.arange(len(self.broken)), "right")])

    def joined(self, at: int, begins: Callable[[list[str]], bool | None]) -> Iterator[list[str]]:
        """Lines that together have separators enough, from this one on, shortest first."""
        enough = int(np.searchsorted(self.total, self.total[at] + self.expected))
        last = min(int(self.run_end[at]), enough + _MOST_ENDS_TRIED, at + _MOST_LINES_PER_ROW)
        texts = [self.lines.text(int(self.broken[at]))]
        if enough > last or (enough > at + 1 and begins(texts[0].split(self.lines.separator)) is False):
            return
        for end in range(at + 1, last + 1):
            if end >= enough:
                yield texts
            following = self.lines.text(int(self.broken[end])) if end < last else ""
            if begins(following.split(self.lines.separator)):
                return
            texts.append(following)


def _mend_at(runs: _Runs, at: int, layout: Layout) -> tuple[list[str], int] | None:
    for texts in runs.joined(at, layout.begins):
        separator = runs.lines.separator
        fields = _fit("\n".join(texts).split(separator), layout, separator)
        if fields:
            return fields, len(texts)
    return None


def _fit(fields: list[str], layout: Layout, separator: str) -> list[str] | None:
    """The fields with the surplus given to free-text columns; None if no way makes sense."""
    surplus = len(fields) - 1 - layout.separators
    anywhere = tuple(sorted((*layout.free, *layout.unread)))
    for free in (*((column,) for column in layout.free), layout.free, anywhere):
        shares = _share(fields, surplus, free, layout.checks)
        if shares is not None:
            return _give(fields, free, shares, separator)
    return None


def _share(
    fields: list[str], surplus: int, free: tuple[int, ...], checks: tuple[tuple[int, Fits], ...]
) -> tuple[int, ...] | None:
    """How many surplus separators each free column owns, such that all checked columns fit; None if no way does.

    A column's share shifts the checked ones behind it. Shares are tried from left to right, and given up as soon
    as a column before the next free one does not fit.
    """
    bounds = (-1, *free, sys.maxsize)
    between = [[check for check in checks if low < check[0] < high] for low, high in pairwise(bounds)]
    hopeless: set[tuple[int, int]] = set()

    def fits(number: int, shift: int) -> bool:
        return all(test(fields[position + shift]) for position, test in between[number])

    def place(number: int, shift: int) -> tuple[int, ...] | None:
        if number == len(free):
            return () if shift == surplus else None
        if (number, shift) in hopeless:
            return None
        left = surplus - shift
        last = number == len(free) - 1
        for share in (left,) if last else range(min(left, _MOST_SURPLUS_SHARED) + 1):
            rest = place(number + 1, shift + share) if fits(number + 1, shift + share) else None
            if rest is not None:
                return (share, *rest)
        hopeless.add((number, shift))
        return None

    return place(0, 0) if fits(0, 0) else None


def _give(fields: list[str], free: tuple[int, ...], shares: tuple[int, ...], separator: str) -> list[str]:
    fields = list(fields)
    for column, share in zip(free, shares, strict=True):
        fields[column : column + share + 1] = [separator.join(fields[column : column + share + 1])]
    return fields


def _wrong_count(separators: int, layout: Layout) -> str:
    found = separators + 1 - int(layout.trailing)
    return f"has {found} fields where the header has {layout.width}"
