"""The key figures on top of a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure: the figure, what it is, and what it means."""

    figure: str
    name: str
    meaning: str
