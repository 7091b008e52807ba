"""What changes of a training's size are taken to cost it: as its owner says, and as was seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.core.observed import SeenCosts
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
        seen.scale_up.believed_s(tag.grow_s),
        seen.scale_down.believed_s(tag.shrink_s),
        _forced_loss_s(seen, tag),
        seen.start.believed_s(tag.start_s),
        seen.boot.believed_s(tag.boot_s),
    )


def _forced_loss_s(seen: SeenCosts, tag: Tag) -> float | None:
    """The pause, and half of the time between two checkpoints unless SIGTERM lets it save; None: as for shrinking.

    Without a word of its owner's it is taken to lose no more than when it gives nodes back.
    """
    since_saved_s = 0.0 if tag.notice else tag.save_s / 2
    if not seen.forced_loss.times and not since_saved_s:
        return None
    return seen.forced_loss.believed_s(tag.shrink_s) + since_saved_s
