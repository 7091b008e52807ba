"""The report's colours, told apart by colour-blind readers too (after Paul Tol) and the same in every picture."""

from __future__ import annotations

INK = "#1b2733"
QUIET = "#5b6875"
RULE = "#d9dfe5"
BUSY = "#e8ecf0"
IDLE = "#f2b544"
LENT = "#1f6296"
LOST = "#a63d2f"
DEDICATED = "#6b7783"

TRAINERS = (
    *("#1f6296", "#c8586c", "#2e8b57", "#5b3a94", "#63b8d8", "#7a1f4b"),
    *("#8d8c2f", "#b35bb0", "#14504a", "#8a94ea", "#8c4f2b", "#52c0a3"),
)


def trainer_colour(rank: int) -> str:
    """Colour of the trainer admitted at this place; they come round again after the last."""
    return TRAINERS[rank % len(TRAINERS)]
