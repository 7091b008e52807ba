"""Changes of sizes: how often trainers get or lose nodes, learned from those that did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from freetrain.lending.stays import HALF_LIFE_S

_PRIOR_S, _PRIOR_CHANGES = 1200.0, 1.0
"""Before anything was seen: as if one trainer had changed its size after twenty minutes."""


@dataclass(frozen=True, slots=True)
class SizeChanges:
    """How long trainers have had nodes, and how often the number of these has changed, whatever the reason.

    Attributes:
        trainer_s: trainer-seconds with nodes, fading.
        changes: how often a trainer that had nodes got more of them or lost some, or all, fading.
        seen_s: the last instant that is known, UTC epoch seconds; None: there was none.
        sizes: trainer → how many nodes it had then; those without nodes are left out.
    """

    trainer_s: float = _PRIOR_S * _PRIOR_CHANGES
    changes: float = _PRIOR_CHANGES
    seen_s: float | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def within(self, horizon_s: float) -> float:
        """How often a trainer is expected to change its size within a horizon, at least once."""
        return max(1.0, horizon_s * self.changes / self.trainer_s)

    def after(self, now_s: float, sizes: Mapping[str, int]) -> SizeChanges:
        """After an instant at which trainers have so many nodes."""
        passed_s = 0.0 if self.seen_s is None else now_s - self.seen_s
        fades = 0.5 ** (passed_s / HALF_LIFE_S)
        changed = sum(sizes.get(trainer, 0) != nodes for trainer, nodes in self.sizes.items())
        return SizeChanges(
            fades * self.trainer_s + passed_s * len(self.sizes),
            fades * self.changes + changed,
            now_s,
            {trainer: nodes for trainer, nodes in sizes.items() if nodes},
        )
