"""Settings: where freetrain keeps what it knows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from freetrain.config.sections.section import Section
from freetrain.config.values import Duration


class State(Section):
    """Where freetrain keeps what it knows."""

    directory: Annotated[str, Field(description="On a local disk; holds the database and the lock.")] = (
        "/var/lib/freetrain"
    )
    keep: Annotated[
        Duration,
        Field(
            description="How long decisions, commands, delays and the times of single nodes are remembered; the "
            "report of a month needs one. What users and accounts were lent on each day stays."
        ),
    ] = 35 * 86400.0
    stop_file: Annotated[
        str, Field(description="While this file exists nothing is lent and everything lent is taken back.")
    ] = "/run/freetrain/STOP"
