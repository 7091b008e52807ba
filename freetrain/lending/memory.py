"""The memory: records that are kept from one look to the next. Losing them, at a restart, does no harm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from freetrain.core.node import Nodes
from freetrain.lending.back_off import LostNodes, evictions_after
from freetrain.lending.blocked_jobs import Blocked, find_waits
from freetrain.lending.causes import Suspects
from freetrain.lending.facts import Facts
from freetrain.lending.limit_claims import LimitClaims, claims_after
from freetrain.lending.meter import Meter
from freetrain.lending.planned_stays import PlannedStays
from freetrain.lending.rules import NodeRules, Rules
from freetrain.lending.shadow import NO_SHADOW, Shadow
from freetrain.lending.sharing.allotment import DeclinedNodes
from freetrain.lending.sightings import Leaving, Sightings
from freetrain.lending.stays import SizeChanges, Stays, sizes_now


@dataclass(frozen=True, slots=True)
class Memory:
    """Records that are kept from one look to the next.

    Attributes:
        sightings: idle times of nodes, nodes that rest, jobs that could start.
        blocked: the site's jobs that waited for the end of fragments.
        planned_stays: scores of plans as predictions of the times until which nodes may be lent.
        declined: claimants that did not take all the nodes that they could have.
        evicted_s: times of evictions of fragments, as far back as they count, UTC epoch seconds.
        limits: fragments that are given back for the site's jobs that wait for a limit.
        suspects: pairs of trainings and nodes, and nodes, that failed.
        shadow: the shadow schedule, so that the next look searches only what has changed.
    """

    sightings: Sightings = field(default_factory=Sightings)
    blocked: Blocked = field(default_factory=Blocked)
    meter: Meter = field(default_factory=Meter)
    lost: LostNodes = field(default_factory=LostNodes)
    stays: Stays = field(default_factory=Stays)
    planned_stays: PlannedStays = field(default_factory=PlannedStays)
    size_changes: SizeChanges = field(default_factory=SizeChanges)
    declined: DeclinedNodes = field(default_factory=dict)
    evicted_s: tuple[float, ...] = ()
    leaving: Leaving = field(default_factory=Leaving)
    limits: LimitClaims = field(default_factory=dict)
    suspects: Suspects = field(default_factory=Suspects)
    shadow: Shadow = NO_SHADOW

    def with_nodes(self, facts: Facts, idle_for_the_site: Nodes, rules: NodeRules) -> Memory:
        """The memory after a look at the nodes."""
        now_s = facts.snapshot.time_s
        sightings = self.sightings.with_ends(facts.ended, now_s, rules.cool_down_s)
        return replace(
            self,
            stays=self.stays.after(now_s, idle_for_the_site),
            size_changes=self.size_changes.after(now_s, sizes_now(facts)),
            sightings=sightings.with_nodes(facts),
            suspects=self.suspects.after(facts, len(rules.queue.among(facts.snapshot.partitions).nodes)),
        )

    def with_harm(self, facts: Facts, shadow: Shadow, rules: Rules) -> Memory:
        """The memory after a look at the harm of lending: jobs that wait or start late, lost nodes, evictions."""
        snapshot, nodes = facts.snapshot, rules.nodes
        limits = claims_after(self.limits, facts, shadow, nodes)
        blocked = self.blocked.after(find_waits(facts, nodes), snapshot, nodes.claim_s)
        # In Slurm a fragment ends when it is ordered to go; the site's job waits until its node is free.
        left = replace(facts, ended=self.leaving.until_free(facts.ended))
        meter = self.meter.after(left, shadow, blocked.jobs, nodes, rules.harm, limits)
        # A fragment that ended while no daemon looked may have ended long ago.
        ended = [*facts.ended, *meter.ended]
        return replace(
            self,
            limits=limits,
            blocked=blocked,
            meter=meter,
            lost=self.lost.after(snapshot, [*ended, *facts.fragments], rules.harm),
            leaving=self.leaving.after(facts),
            evicted_s=evictions_after(self.evicted_s, facts.ended, snapshot.time_s, rules.harm),
        )
