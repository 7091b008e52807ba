"""Windows: the largest of the numbers before each position of a row, as far back as the row's width says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.terms import Sizes, Table

_MOST_KEPT = 1_000_000
"""Where rows and positions are more than this many, positions are worked out anew each time."""


@dataclass(frozen=True, slots=True)
class _Doubling:
    """Rows whose widest window that is a power of two is this one.

    Attributes:
        rows: which.
        back: how far back the earlier of two such windows ends, shape (rows, 1).
        at: where it ends, as positions of all these rows one after the other; None: not kept.
    """

    rows: NDArray[np.int64]
    back: NDArray[np.int64]
    at: NDArray[np.int64] | None

    def largest(self, window: Table) -> Table:
        """Of two windows that overlap, and end before each position; position 0 of ``window`` stands for none."""
        early = window[self.rows]
        at = _positions(self.back, early.shape[1] - 1) if self.at is None else self.at
        late: Table = early.ravel().take(at)
        return np.maximum(late, early[:, :-1], out=late)


class Windows:
    """Rows with a width each, which do not change.

    Two windows that are the same power of two wide, and overlap, make one of any width.

    Args:
        widths: how many positions before each one count, at least 1, shape (rows,).
        positions: of each row.
    """

    def __init__(self, widths: Sizes, positions: int) -> None:
        self._positions = positions
        is_wide = widths >= positions - 1
        self._wide = np.flatnonzero(is_wide)
        self._doublings: list[_Doubling] = []
        some, width = np.flatnonzero(~is_wide), 1
        while some.size:
            done = widths[some] < 2 * width
            rows = some[done]
            back = (widths[rows] - width + 1)[:, None]
            at = _positions(back, positions) if rows.size * positions <= _MOST_KEPT else None
            self._doublings.append(_Doubling(rows, back, at))
            some, width = some[~done], 2 * width

    def largest_before(self, table: Table) -> Table:
        """For each position the largest number of those that its row's width reaches; -inf: there is none."""
        largest = np.full(table.shape, -np.inf)
        if self._wide.size:
            largest[self._wide, 1:] = np.maximum.accumulate(table[self._wide], axis=1)[:, :-1]
        if not self._doublings:
            return largest
        window, width = np.full((len(table), self._positions + 1), -np.inf), 1
        window[:, 1:] = table
        for number, doubling in enumerate(self._doublings):
            if number:
                window[:, 1 + width :] = np.maximum(window[:, 1 + width :], window[:, 1:-width])
                width *= 2
            if doubling.rows.size:
                largest[doubling.rows] = doubling.largest(window)
        return largest


def _positions(back: NDArray[np.int64], positions: int) -> NDArray[np.int64]:
    """So far back from each position, one row after the other, with one that stands for none before the first."""
    at = np.maximum(np.arange(positions) - back + 1, 0)
    return np.asarray(at + np.arange(len(back))[:, None] * (positions + 1))
