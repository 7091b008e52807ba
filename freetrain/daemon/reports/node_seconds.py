"""Node-seconds: how much idle time there was, how much of it was offered, lent, and trained in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_PROGRESS_WITHIN_S = 30.0
"""A training reports its progress at least so often; of a longer silence only the end was training."""


@dataclass(frozen=True, slots=True)
class Use:
    """What the nodes of the partition do at one instant.

    Attributes:
        time_s: running seconds.
        idle: nodes that the site's own jobs do not use; lent ones are among them.
        offered: of these, those that may be lent.
        lent: trainer → nodes on which its fragments run.
        samples: trainer → what it has trained with so far, as it says.
    """

    time_s: float
    idle: int
    offered: int
    lent: Mapping[str, int]
    samples: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeSeconds:
    """Between two looks: each as in :class:`Use`; useful are those of trainers that have got on."""

    idle: float = 0.0
    offered: float = 0.0
    lent: float = 0.0
    useful: float = 0.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Node-seconds of a trainer since it was last seen to get on."""

    since_s: float
    node_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class UseMeter:
    """What is remembered between two looks."""

    before: Use | None = None
    waiting: Mapping[str, _Waiting] = field(default_factory=dict)

    def after(self, now: Use) -> tuple[UseMeter, NodeSeconds]:
        """What has come to the time since the last look, during which all was as it was then."""
        before = self.before
        if before is None:
            return UseMeter(now), NodeSeconds()
        elapsed_s = max(0.0, now.time_s - before.time_s)
        waiting, useful = {}, 0.0
        for trainer, nodes in before.lent.items():
            old = self.waiting.get(trainer, _Waiting(before.time_s))
            node_seconds = old.node_seconds + nodes * elapsed_s
            if now.samples.get(trainer, 0.0) > before.samples.get(trainer, 0.0):
                silent_s = max(now.time_s - old.since_s, _PROGRESS_WITHIN_S)
                useful += node_seconds * _PROGRESS_WITHIN_S / silent_s
            elif trainer in now.lent:
                waiting[trainer] = _Waiting(old.since_s, node_seconds)
        lent = sum(before.lent.values())
        spent = NodeSeconds(before.idle * elapsed_s, before.offered * elapsed_s, lent * elapsed_s, useful)
        return UseMeter(now, waiting), spent
