"""The first that the page says: how the daemon stands, in a word and in sentences. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from freetrain.daemon.reports.standing import Standing
from freetrain.showing.words import count, printable

Tone = Literal["good", "warning", "bad"]


@dataclass(frozen=True, slots=True)
class Headline:
    """How the daemon stands.

    Attributes:
        word: for the line that is always in view.
        sentence: the page's heading.
        tone: how bad that is.
        lines: what else is to be said, as every listing of freetrain's begins.
    """

    word: str
    sentence: str
    tone: Tone
    lines: tuple[str, ...]


def headline_of(standing: Standing, is_hidden: bool) -> Headline:
    """The headline.

    Args:
        standing: how the daemon stands.
        is_hidden: whether it published something that may not be read here.
    """
    if is_hidden:
        why = f"{standing.why_not}."
        return Headline("unknown", "How the daemon stands is not known here", "bad", (why[:1].upper() + why[1:],))
    word, sentence, tone = _in_a_word(standing)
    return Headline(word, sentence, tone, tuple(printable(line) for line in standing.lines()))


def _in_a_word(standing: Standing) -> tuple[str, str, Tone]:
    status, look = standing.status, standing.look
    if status is None or not standing.is_at_work:
        return "no daemon", "No daemon is at work here", "bad"
    if status.silent_since_s is not None:
        return "cannot look", "The daemon cannot look at Slurm", "bad"
    if look is None:
        return "no look yet", "The daemon has not looked yet", "warning"
    if standing.stopped_by:
        return "stopped", "Nothing is lent: the daemon is stopped", "warning"
    if look.paused_by:
        return "paused", "Nothing more is lent: the daemon is paused", "warning"
    if status.daemon.mode != "act":
        does = {"observe": "observes", "advise": "advises"}.get(status.daemon.mode, status.daemon.mode)
        return does, f"The daemon {does} and lends nothing", "warning"
    return "lends", f"{look.lent_nodes:,} of {count(look.idle_nodes, 'idle node')} are lent", "good"
