"""Windows: the largest of the numbers before each position of a row, as far back as the row's width says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freetrain.core.terms import Sizes, Table

_MOST_KEPT = 1_000_000
"""Where rows and positions are more than this many, positions are worked out anew each time."""

Positions = NDArray[np.int64]


class Windows:
    """Rows with a width each, which do not change.

    Two windows that are the same power of two wide, and overlap, make one of any width. Those of all rows and all
    powers of two are looked up in one table.

    Args:
        widths: how many positions before each one count, at least 1, shape (rows,).
        positions: of each row.
    """

    def __init__(self, widths: Sizes, positions: int) -> None:
        is_wide = widths >= positions - 1
        self._wide, self._narrow = np.flatnonzero(is_wide), np.flatnonzero(~is_wide)
        self._widths, self._positions = widths[self._narrow], positions
        self._power = np.frexp(self._widths)[1].astype(np.int64) - 1
        is_kept = self._narrow.size * positions <= _MOST_KEPT
        self._kept = self._ends() if is_kept else None

    def largest_before(self, table: Table) -> Table:
        """For each position the largest number of those that its row's width reaches; -inf: there is none."""
        largest = np.full(table.shape, -np.inf)
        if self._wide.size:
            largest[self._wide, 1:] = np.maximum.accumulate(table[self._wide], axis=1)[:, :-1]
        if self._narrow.size:
            windows = self._windows(table).ravel()
            early, late = self._kept or self._ends()
            largest[self._narrow] = np.maximum(windows.take(early), windows.take(late))
        return largest

    def _windows(self, table: Table) -> Table:
        """Of each power of two, for each narrow row, the largest number in the window that ends there.

        Position 0 stands for none, and is followed by those of the table.
        """
        windows = np.empty((int(self._power.max()) + 1, self._narrow.size, self._positions + 1))
        windows[0, :, 0] = -np.inf
        windows[0, :, 1:] = table[self._narrow]
        for power in range(1, len(windows)):
            half, width = windows[power - 1], 2 ** (power - 1)
            windows[power, :, :width] = half[:, :width]
            np.maximum(half[:, width:], half[:, :-width], out=windows[power, :, width:])
        return windows

    def _ends(self) -> tuple[Positions, Positions]:
        """Where the two windows are found that make the one before each position, shape (rows, positions)."""
        rows, position = np.arange(self._narrow.size), np.arange(self._positions)
        begin = ((self._power * rows.size + rows) * (self._positions + 1))[:, None]
        back = (self._widths - 2**self._power)[:, None]
        return begin + position, begin + np.maximum(position - back, 0)
