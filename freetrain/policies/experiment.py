"""What an experiment comes to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Figures.

    Attributes:
        title: what was done, in a sentence.
        columns: what each column says.
        rows: the figures, a row each.
        notes: sentences on how to read them.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    notes: tuple[str, ...] = ()
