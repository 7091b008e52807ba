"""Sightings: what only comparing one look with those before it tells; to forget it, in a restart, does no harm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.lending.shadow import Shadow

_IN_VAIN_S = 60.0
"""So long a node is left alone on which Slurm did not start a fragment: something is the matter with it."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """What has been seen so far.

    Attributes:
        idle_since_s: since when each node that nobody has has been seen idle.
        resting_until_s: nodes that are left alone for a while → until when.
        fitting_since_s: waiting jobs → since when the nodes to start them have been there.
    """

    idle_since_s: Mapping[str, float] = field(default_factory=dict)
    resting_until_s: Mapping[str, float] = field(default_factory=dict)
    fitting_since_s: Mapping[str, float] = field(default_factory=dict)

    def with_nodes(self, snapshot: Snapshot, fragments: Iterable[Fragment]) -> Sightings:
        """After a look at the nodes: those idle that are, and rests that are over left out."""
        now_s, lent = snapshot.time_s, {one.node for one in fragments}
        return replace(
            self,
            idle_since_s={name: self.idle_since_s.get(name, now_s) for name in snapshot.idle - lent},
            resting_until_s={name: end_s for name, end_s in self.resting_until_s.items() if end_s > now_s},
        )

    def with_ends(self, ended: Iterable[Fragment], now_s: float, cool_down_s: float) -> Sightings:
        """After the ends of fragments, whose nodes rest."""
        return self._resting((one.node for one in ended), now_s + cool_down_s) if cool_down_s else self

    def with_vain(self, fragments: Iterable[Fragment], now_s: float) -> Sightings:
        """After a look at fragments that Slurm did not start."""
        return self._resting((one.node for one in fragments), now_s + _IN_VAIN_S)

    def with_fitting(self, shadow: Shadow) -> Sightings:
        """After a look at the waiting jobs."""
        since_s = self.fitting_since_s
        return replace(self, fitting_since_s={job: since_s.get(job, shadow.time_s) for job in shadow.fitting})

    def disbelieved(self, now_s: float, claim_s: float) -> frozenset[str]:
        """Jobs that did not start for so long although the nodes were there."""
        return frozenset(job for job, since_s in self.fitting_since_s.items() if now_s - since_s >= claim_s)

    def _resting(self, names: Iterable[str], until_s: float) -> Sightings:
        return replace(self, resting_until_s={**self.resting_until_s, **dict.fromkeys(names, until_s)})
