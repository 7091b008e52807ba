"""Timeouts of the runtime, every limit with its reason."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from math import inf

from freetrain.errors import InputError


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits, each to be set by an environment variable of the same name (``FREETRAIN_LOST_AFTER_S`` …)."""

    poll_s: float = 0.01  # how often the directory is looked at; less often where a look is slow (NFS)
    beat_s: float = 0.5  # how often a member leaves a sign of life
    # Without a sign of life for this long a member is lost. Long enough for a process that holds Python's lock in
    # one long call, short enough that a crashed node costs seconds.
    lost_after_s: float = 5.0
    # Collectives of a world that lost a member get this long to fail by themselves; then connections are cut.
    cut_after_s: float = 0.1
    # For members that have all arrived to find each other's addresses. Gloo waits five times as long for
    # connections, if a member is lost in that very moment.
    form_timeout_s: float = 5.0
    start_timeout_s: float = 3600.0  # for a newcomer's first world; boots of large models take minutes
    # A member for which the others wait so long in a step is lost, if it neither comes to its next collective nor
    # computes anything.
    hung_after_s: float = 300.0
    min_members: int = 1  # needed to start from nothing

    @classmethod
    def from_environment(cls) -> Timeouts:
        """The defaults, or the environment's values; raises InputError if one is not such a number."""
        given = {}
        for field in fields(cls):
            name = f"FREETRAIN_{field.name.upper()}"
            if not (text := os.environ.get(name)):
                continue
            is_whole = field.name == "min_members"
            try:
                value = int(text) if is_whole else float(text)
            except ValueError:
                value = -1
            if not 0 < value < inf:
                kind = "a whole number" if is_whole else "a number of seconds"
                raise InputError(
                    f"{name}={text} in the environment is not {kind} above 0.", f"Correct {name}, or unset it."
                )
            given[field.name] = value
        return cls(**given)  # type: ignore[arg-type]
