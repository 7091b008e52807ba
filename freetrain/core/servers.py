"""Parameter servers: processes that add up the gradients of a trainer's workers, on some of its own nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict

from freetrain.core import bounds

Serving = Mapping[str, tuple[str, ...]]
"""Trainer → those of its nodes that have a server, by name; trainers without one are left out."""

_Coefficient = Annotated[float, bounds.STEP_COEFFICIENT_S.field]


@dataclass(frozen=True, slots=True)
class Servers:
    """A trainer's use of servers. A server runs beside the workers of a node and takes no node of its own.

    Attributes:
        most: how many it may have at most.
        step_s: A, B, C, D, E of A/n + B + C·n/p + D·n + E·p, the seconds of a step on n nodes with p servers, as
            its owner measured them; None: not measured, so one server is enough.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    most: Annotated[int, bounds.SERVERS.field] = 1
    step_s: tuple[_Coefficient, _Coefficient, _Coefficient, _Coefficient, _Coefficient] | None = None
