"""How patient the runtime is; every limit with its reason."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from math import inf

from freetrain.errors import InputError

_PREFIX = "FREETRAIN_"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits, each to be set by an environment variable of the same name (``FREETRAIN_LOST_AFTER_S`` …).

    Attributes:
        poll_s: how often the directory is looked at; stretched where a look is slow (NFS), see the watcher.
        beat_s: how often a member leaves a sign of life.
        lost_after_s: a member without sign of life for this long is lost. Long enough for a process that holds
            Python's lock in one long call, short enough that a crashed node costs seconds.
        cut_after_s: how long a member of a world that lost somebody waits for its collectives to fail by
            themselves before it cuts their connections.
        form_timeout_s: how long members that have all arrived may take to find each other's addresses; gloo waits
            five times as long for connections, if a member is lost in that very moment.
        start_timeout_s: how long a newcomer waits for its first world; boots of large models take minutes.
        hung_after_s: a member for which the others have waited so long within a step, while it neither came to its
            next collective nor computed anything, is lost.
        min_members: members needed to start from nothing.
    """

    poll_s: float = 0.01
    beat_s: float = 0.5
    lost_after_s: float = 5.0
    cut_after_s: float = 0.1
    form_timeout_s: float = 5.0
    start_timeout_s: float = 3600.0
    hung_after_s: float = 300.0
    min_members: int = 1

    @classmethod
    def from_environment(cls) -> Timeouts:
        """The defaults, or what the environment says; raises InputError if that is not such a number."""
        given = {}
        for field in fields(cls):
            name = _PREFIX + field.name.upper()
            if text := os.environ.get(name):
                given[field.name] = _number(name, text, is_whole=field.name == "min_members")
        return cls(**given)  # type: ignore[arg-type]


def _number(name: str, text: str, is_whole: bool) -> float:
    try:
        value = int(text) if is_whole else float(text)
    except ValueError:
        value = -1
    if not 0 < value < inf:
        kind = "a whole number" if is_whole else "a number of seconds"
        raise InputError(
            f"{name}={text} in the environment is not {kind} above 0.", f"Correct {name}, or unset it."
        )
    return value
