"""Comments of jobs: freetrain's answers behind a tag, to its owner and its agents, and its owner's requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from freetrain.core.known_trainer import PAUSE_NOTE

ANSWER = " | "
"""Separator between the user's tag and freetrain's answer, where there is one."""

_RESUME = re.compile(r"resume ([0-9]{1,12})")
# The trainer's own agents read this answer (``freetrain.elastic.on_node.servers``): it is not for people.
_SERVERS_ON = "servers on "


def with_answer(comment: str, sentence: str) -> str:
    """The comment with an answer to its owner behind it, an older answer replaced; 1,000 characters at most."""
    return f"{comment.partition(ANSWER)[0]}{ANSWER}{sentence}"[:1000]


def answer_in(comment: str) -> str:
    """Text behind the tag that is for its owner; empty: none."""
    answer = comment.partition(ANSWER)[2]
    return "" if answer.startswith(_SERVERS_ON) else answer


def without_answer(comment: str) -> str:
    """The tag alone."""
    return comment.partition(ANSWER)[0]


def says_paused(comment: str) -> bool:
    """Whether freetrain has answered that the trainer is paused."""
    return answer_in(comment).startswith(PAUSE_NOTE)


def ask_to_resume(comment: str, time_s: float) -> str:
    """The comment by which an owner asks that their trainer go on; no two of them are equal."""
    return with_answer(comment, f"resume {max(int(time_s), asked_to_resume(comment) + 1)}")


def asked_to_resume(comment: str) -> int:
    """Time at which the owner asked that their trainer go on, epoch seconds of their clock; 0: they do not ask."""
    found = _RESUME.fullmatch(answer_in(comment))
    return int(found[1]) if found else 0


def with_servers(comment: str, nodes: Sequence[str]) -> str:
    """The comment that tells the trainer's agents on which nodes its servers are to run; none: nowhere."""
    return with_answer(comment, f"{_SERVERS_ON}{','.join(nodes)}") if nodes else without_answer(comment)


def servers_on(comment: str) -> tuple[str, ...]:
    """Nodes on which the trainer's agents were ordered to run servers; empty: none."""
    answer = comment.partition(ANSWER)[2]
    return (
        tuple(filter(None, answer.removeprefix(_SERVERS_ON).split(","))) if answer.startswith(_SERVERS_ON) else ()
    )
