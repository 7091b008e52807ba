"""Sightings: facts that only a comparison of looks shows; to forget them, in a restart, does no harm."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow


@dataclass(frozen=True, slots=True)
class Sightings:
    """Times since which nodes have been idle and jobs could have started, and rests of nodes.

    Attributes:
        idle_since_s: idle node that is not lent → time since which it has been seen idle.
        resting_until_s: node that is left alone for a while → time until which it is.
        fitting_since_s: waiting job → time since which the nodes to start it have been there.
        start_timeouts_s: node where no fragment ran since Slurm did not start one → seconds that it rested then.
    """

    idle_since_s: Mapping[str, float] = field(default_factory=dict)
    resting_until_s: Mapping[str, float] = field(default_factory=dict)
    fitting_since_s: Mapping[str, float] = field(default_factory=dict)
    start_timeouts_s: Mapping[str, float] = field(default_factory=dict)

    def with_nodes(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Sightings:
        """The sightings after a look at the nodes: with those that are idle now, without rests that are over."""
        now_s, lent = snapshot.time_s, {fragment.node for fragment in fragments}
        running = {fragment.node for fragment in fragments if fragment.state is FragmentState.RUNNING}
        return replace(
            self,
            idle_since_s={name: self.idle_since_s.get(name, now_s) for name in snapshot.idle - lent},
            resting_until_s={name: end_s for name, end_s in self.resting_until_s.items() if end_s > now_s},
            start_timeouts_s={
                name: rest_s for name, rest_s in self.start_timeouts_s.items() if name not in running
            },
        )

    def with_ends(self, ended: Iterable[Fragment], now_s: float, cool_down_s: float) -> Sightings:
        """The sightings after the ends of fragments, whose nodes rest."""
        if not cool_down_s:
            return self
        until_s = dict.fromkeys((fragment.node for fragment in ended), now_s + cool_down_s)
        return replace(self, resting_until_s={**self.resting_until_s, **until_s})

    def with_start_timeouts(
        self, fragments: Iterable[Fragment], now_s: float, bounds_s: tuple[float, float]
    ) -> Sightings:
        """The sightings after fragments that Slurm did not start: their nodes rest, each time twice as long."""
        first_s, most_s = bounds_s
        names = {fragment.node for fragment in fragments}
        rests_s = {name: min(2 * self.start_timeouts_s.get(name, first_s / 2), most_s) for name in names}
        until_s = {name: now_s + rest_s for name, rest_s in rests_s.items()}
        return replace(
            self,
            resting_until_s={**self.resting_until_s, **until_s},
            start_timeouts_s={**self.start_timeouts_s, **rests_s},
        )

    def with_fitting(self, shadow: Shadow, still_held: Container[str] = ()) -> Sightings:
        """The sightings after a look at the waiting jobs."""
        now_s, since_s = shadow.time_s, self.fitting_since_s
        # Where fragments are still leaving, the nodes are not there yet.
        fitting = {job: now_s if job in still_held else since_s.get(job, now_s) for job in shadow.fitting}
        return replace(self, fitting_since_s=fitting)

    def disbelieved(self, now_s: float, claim_s: float) -> frozenset[str]:
        """Jobs that did not start for so long although the nodes were there."""
        return frozenset(job for job, since_s in self.fitting_since_s.items() if now_s - since_s >= claim_s)

    def next_change_s(self, now_s: float, rules: NodeRules) -> float:
        """Next time at which what may be lent changes without any event, UTC epoch seconds; inf: never.

        Then a claim ends, a node has been idle for long enough, or the rest of a node ends that could be lent:
        where nodes are lent whole, of an idle node.
        """
        claims_s = (since_s + rules.claim_s for since_s in self.fitting_since_s.values())
        idle_s = (since_s + rules.idle_for_s for since_s in self.idle_since_s.values())
        rests_s = (
            end_s for name, end_s in self.resting_until_s.items() if rules.in_parts or name in self.idle_since_s
        )
        return min((at_s for at_s in chain(claims_s, idle_s, rests_s) if at_s > now_s), default=inf)
