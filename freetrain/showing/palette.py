"""The colours of all pages, distinct for colour-blind readers too (after Paul Tol) and the same in every picture.

Pictures are drawn in the light colours; in the page each becomes a variable of the style sheet, of which dark
screens have another value. Colours of areas serve on both grounds.
"""

from __future__ import annotations

INK = "#1b2733"
QUIET = "#5b6875"
RULE = "#d9dfe5"
BUSY = "#e8ecf0"
PAGE = "#ffffff"
IDLE = "#e3a32e"
LENT = "#2a78b8"
STARTING = "#9cc4e0"
LOST = "#c2503f"
DEDICATED = "#7d8994"
ALLOWED = "#12976f"

LIGHT = {
    "ink": INK, "quiet": QUIET, "rule": RULE, "busy": BUSY, "page": PAGE, "idle": IDLE, "lent": LENT,
    "starting": STARTING, "lost": LOST, "dedicated": DEDICATED, "allowed": ALLOWED,
}  # fmt: skip
DARK = {"ink": "#e4e9ee", "quiet": "#9daab6", "rule": "#36414c", "busy": "#2a333c", "page": "#12171c"}

TRAINERS = (
    *("#2a78b8", "#c8586c", "#2e8b57", "#7a57bd", "#63b8d8", "#a8417a"),
    *("#8d8c2f", "#b35bb0", "#2f8079", "#8a94ea", "#a6673f", "#52c0a3"),
)
"""Colours of trainers; as many trainers have one of their own."""


def trainer_colour(rank: int) -> str:
    """Colour of the trainer admitted at this place; they come round again after the last."""
    return TRAINERS[rank % len(TRAINERS)]
