"""What changes cost a training, and how fast it is on which nodes: as its owner says, and as was seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.observed import SeenCosts, at_speed_1, seen_speeds
from freetrain.core.throughput import mean_rates, usable
from freetrain.slurm.tags import Tag


@dataclass(frozen=True, slots=True)
class BelievedCosts:
    """Seconds, as in :class:`freetrain.core.trainer.Trainer`."""

    scale_up_s: float
    scale_down_s: float
    forced_loss_s: float | None
    start_s: float
    boot_s: float


def believed_costs(seen: SeenCosts, tag: Tag) -> BelievedCosts:
    """What is believed of a training: its tag counts as much as having been seen once."""
    return BelievedCosts(
        seen.scale_up.believed_s(tag.scale_up_s),
        seen.scale_down.believed_s(tag.scale_down_s),
        _forced_loss_s(seen, tag),
        seen.start.believed_s(tag.start_s),
        seen.boot.believed_s(tag.boot_s),
    )


def _forced_loss_s(seen: SeenCosts, tag: Tag) -> float | None:
    """The pause, and half of the time between two checkpoints unless SIGTERM lets it save; None: as for shrinking.

    Without a word of its owner's it is taken to lose no more than when it gives nodes back.
    """
    since_saved_s = 0.0 if tag.saves_at_the_end else tag.save_s / 2
    if not seen.forced_loss.times and not since_saved_s:
        return None
    return seen.forced_loss.believed_s(tag.scale_down_s) + since_saved_s


def most_lost_s(tag: Tag) -> float:
    """What the end of a task loses of all that it has done: half of the time from one checkpoint to the next."""
    if tag.saves_at_the_end:
        return 0.0
    return tag.save_s / 2 if tag.save_s else inf


def known_end_s(tag: Tag) -> float:
    """What it costs that a task ends at a known time: no less than a run that is just of use."""
    saves_s = 0.0 if tag.saves_at_the_end else tag.save_s
    shortest_s = saves_s if tag.shortest_s is None else tag.shortest_s
    return max(shortest_s, saves_s / 2)


def believed_speeds(trainer: KnownTrainer, tag: Tag) -> Mapping[str, float]:
    """Kind of nodes that its owner names → how fast it is believed to be there."""
    return seen_speeds(trainer.observations, dict(tag.speeds)) if tag.speeds else {}


def seen_at_speed_1(trainer: KnownTrainer, tag: Tag) -> Mapping[int, float]:
    """Samples/s seen on so many nodes, as they would have been at speed 1; empty: its owner names no kinds."""
    if not tag.speeds:
        return {}
    return mean_rates(usable(at_speed_1(trainer.observations, believed_speeds(trainer, tag))))
