"""A trainer: one elastic training job, its use of parameter servers, and its past."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, Field

from freetrain.core import bounds
from freetrain.core.throughput import Curve, check_curve, rates

Serving = Mapping[str, tuple[str, ...]]
"""Trainer → those of its nodes that have a server, by name; trainers without one are left out."""

_Coefficient = Annotated[float, bounds.STEP_COEFFICIENT_S.field]


@dataclass(frozen=True, slots=True)
class Servers:
    """A trainer's use of servers. A server runs beside the workers of a node and takes no node of its own.

    Attributes:
        step_s: A, B, C, D, E of A/n + B + C·n/p + D·n + E·p, the seconds of a step on n nodes with p servers, as
            its owner measured them; None: not measured, so one server is enough.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    most: Annotated[int, bounds.SERVERS.field] = 1
    step_s: tuple[_Coefficient, _Coefficient, _Coefficient, _Coefficient, _Coefficient] | None = None


Seconds = Annotated[float, bounds.SECONDS.field]
_Size = Annotated[int, bounds.NODES.field]


def _epoch_s(given: object) -> object:
    """Epoch seconds of a date as TOML or ISO 8601 text gives it; UTC where it names no zone."""
    if isinstance(given, str):
        given = datetime.fromisoformat(given)
    if isinstance(given, datetime):
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
    return given


# TOML has dates of its own and JSON has text: both become numbers before pydantic looks at them.
Instant = Annotated[float, BeforeValidator(_epoch_s), bounds.INSTANT.field]


@dataclass(frozen=True, slots=True)
class KindChoice:
    """Kinds of nodes of which a trainer may have some together; its throughput is that at speed 1."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kinds: Annotated[tuple[str, ...], Field(min_length=1)]
    speed: Annotated[float, bounds.SPEED.field] = 1.0


@dataclass(frozen=True, slots=True)
class Trainer:
    """An elastic training job, and what changes of its size cost it.

    Costs are seconds of training lost, at the rate the trainer had before the change (for ``start_s``: at
    the rate it starts with). The defaults are the costs measured for Elastic Horovod on Summit in the
    published FreeTrain data; a start is free there, and a new node trains at once.

    The nodes of an independent trainer work each by itself, as those of a filler: ``start_s`` is lost on each node
    that it gets, ``scale_down_s`` on each that it gives up, ``forced_loss_s`` on each that leaves otherwise, and
    nothing on the others.

    A moldable trainer gets all of its nodes at once, and its size stays: it keeps all of them, or gives them up.
    When the first of them leaves it has ended, and then the others are of no more use to it.

    Attributes:
        throughput: measured points (nodes, samples/s).
        min_nodes: least nodes it can train on; with less it stands still.
        max_nodes: most nodes it can use; None, and anything past the last point, is the last point.
        forced_loss_s: seconds lost when nodes are taken from it unasked; None: as ``scale_down_s``.
        start_s: seconds lost when it starts from nothing.
        boot_s: seconds that a new node needs before it trains (launch, container, import, connect), while those
            that it has train on.
        weight: weight of its samples beside other trainers'.
        submitted_s: time of its submission, UTC epoch seconds; None: before everything else.
        target_samples: samples after which it is complete; None: never.
        deadline_s: time at which its owner wants it complete, UTC epoch seconds; None: no time is named.
        owner: its user; empty: unknown.
        account: account that is charged for it; empty: unknown.
        choices: kinds of nodes that it may have, one entry at a time; None: any kind, one at a time.
        bytes_per_sample: bytes of its gradients / samples of a node in a step; 0: unknown. Policies that
            reserve bandwidth decide by it, and replays count what goes from leaf to leaf.
        servers: its use of parameter servers; None: its workers add up their gradients themselves.
        task: request of each of its tasks to a node that a replay lends in parts, in Slurm's words; empty: what
            the replay gets. Elsewhere its submission says it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Annotated[str, Field(min_length=1)]
    throughput: Annotated[Curve, Field(min_length=1)]
    min_nodes: _Size = 1
    max_nodes: _Size | None = None
    scale_up_s: Seconds = 18.0
    scale_down_s: Seconds = 12.0
    forced_loss_s: Seconds | None = None
    start_s: Seconds = 0.0
    boot_s: Seconds = 0.0
    weight: Annotated[float, bounds.WEIGHT.field] = 1.0
    submitted_s: Annotated[Instant | None, Field(alias="submitted")] = None
    target_samples: Annotated[float, Field(gt=0, le=bounds.SAMPLES.most)] | None = None
    independent: bool = False
    moldable: bool = False
    choices: tuple[KindChoice, ...] | None = None
    servers: Servers | None = None
    bytes_per_sample: Annotated[float, bounds.BYTES_PER_SAMPLE.field] = 0.0
    deadline_s: Annotated[Instant | None, Field(alias="deadline")] = None
    owner: str = ""
    account: str = ""
    task: str = ""

    def __post_init__(self) -> None:
        check_curve(self.throughput)
        if self.max_nodes is not None and self.min_nodes > self.max_nodes:
            raise ValueError(f"min_nodes {self.min_nodes} is more than max_nodes {self.max_nodes}")
        if self.independent and self.moldable:
            raise ValueError("it is independent or moldable: a size that stays is one of nodes that work together")
        kinds = [kind for choice in self.choices or () for kind in choice.kinds]
        if len(kinds) > len(set(kinds)):
            raise ValueError("each kind of node may stand in one of its choices only")

    def __hash__(self) -> int:
        # By id alone: trainers key many caches, and two of one id in one place are an error anyway.
        return hash(self.id)

    @property
    def most_nodes(self) -> int:
        """Most nodes it may get: ``max_nodes``, but never past the last measured point."""
        last = self.throughput[-1][0]
        return last if self.max_nodes is None else min(self.max_nodes, last)

    @property
    def can_run(self) -> bool:
        """Whether any size satisfies both its minimum and its curve."""
        return self.min_nodes <= self.most_nodes

    @property
    def eviction_s(self) -> float:
        """Seconds lost when nodes are taken from it unasked."""
        return self.scale_down_s if self.forced_loss_s is None else self.forced_loss_s

    @property
    def known_end_s(self) -> float:
        """Seconds lost when nodes leave at a time that was known.

        They are given back in good order before that, or it is evicted where that costs less. For an independent
        or a moldable trainer there is no good order: what runs on a node ends with it.
        """
        return min(self.scale_down_s, self.eviction_s) if self.rescales else self.eviction_s

    @property
    def rescales(self) -> bool:
        """Whether its nodes work together and may become more or fewer, which costs all of them each time."""
        return not (self.independent or self.moldable)

    def change_s(self, held: int, size: int) -> float:
        """Seconds lost by a change of size: at the new size's rate where it starts, else at the rate before."""
        if size == held:
            return 0.0
        if self.rate(held) == 0:
            return self.start_s
        return self.scale_up_s if size > held else self.scale_down_s

    def speed_on(self, kinds: Collection[str]) -> float:
        """Speed on nodes of these kinds: that on the slowest."""
        touched = (choice.speed for choice in self.choices or () if not set(kinds).isdisjoint(choice.kinds))
        return min(touched, default=1.0)

    @property
    def samples_per_s(self) -> NDArray[np.float64]:
        """Samples/s on 0 … ``most_nodes`` nodes, shape (most_nodes + 1,), whatever its minimum."""
        return rates(self.throughput, self.most_nodes)

    def link_bytes_per_s(self, nodes: int) -> float:
        """Bytes/s that each link of its ring carries on so many nodes, 2 (n - 1)/n times its gradients in a step.

        How often that is says its curve: in a step each node trains on its share of the samples.
        """
        if nodes < 2 or self.independent:
            return 0.0
        return 2 * (nodes - 1) / nodes * self.bytes_per_sample * self.rate(nodes) / nodes

    def rate(self, nodes: int) -> float:
        """Samples/s on this many nodes: 0 below the minimum, flat beyond the maximum."""
        return float(self.samples_per_s[min(nodes, self.most_nodes)]) if nodes >= self.min_nodes else 0.0


@dataclass(frozen=True, slots=True)
class TrainerPast:
    """Work that a trainer has done and nodes that it has had until now.

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
"""Names of the fields of a trainer's past, which a policy may need."""


def past_of_samples(done_samples: Mapping[str, float]) -> dict[str, TrainerPast]:
    """Trainer → its past, where nothing is known of it but how many samples it has done."""
    return {trainer: TrainerPast(samples) for trainer, samples in done_samples.items()}
