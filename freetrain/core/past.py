"""The past of a trainer: what it has done and had so far, for policies that decide by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated

from pydantic import ConfigDict, Field

from freetrain.core import bounds


@dataclass(frozen=True, slots=True)
class TrainerPast:
    """What a trainer has done and had until now.

    Attributes:
        done_samples: samples that it has done, as its progress says.
        node_s: node-seconds that it was lent; a part of a node counts as that part.
        first_start_s: when it first had a node, UTC epoch seconds; None: never.
        waiting_since_s: since when it has had none, UTC epoch seconds; None: it has some, or it is not known.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    done_samples: Annotated[float, bounds.SAMPLES.field] = 0.0
    node_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    first_start_s: Annotated[float, bounds.INSTANT.field] | None = None
    waiting_since_s: Annotated[float, bounds.INSTANT.field] | None = None


NO_PAST = TrainerPast()
"""The past of a trainer of which nothing is known."""
PAST_FIELDS = frozenset(field.name for field in fields(TrainerPast))
"""What a policy may need of it."""


def past_of_samples(done_samples: Mapping[str, float]) -> dict[str, TrainerPast]:
    """Trainer → its past, where nothing is known of it but how many samples it has done."""
    return {trainer: TrainerPast(samples) for trainer, samples in done_samples.items()}
