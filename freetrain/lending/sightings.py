"""Sightings: facts that only a comparison of looks shows; to forget them, in a restart, does no harm.

Among them is the time that fragments take to leave their nodes. The end time of a job in Slurm is the moment at
which it was ordered to go. Its node is free only when its processes have ended, its epilog included: until then
squeue shows the job as COMPLETING.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf

from freetrain.core.fragment import End, Fragment
from freetrain.lending.facts import Facts
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

    def with_nodes(self, facts: Facts) -> Sightings:
        """The sightings after a look at the nodes: with those that are idle now, without rests that are over."""
        now_s, lent = facts.snapshot.time_s, {fragment.node for fragment in facts.fragments}
        running = {fragment.node for fragment in facts.running}
        return replace(
            self,
            idle_since_s={name: self.idle_since_s.get(name, now_s) for name in facts.snapshot.idle - lent},
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


# Other ends are the program's own, and do not show how long it takes when it has to leave.
_BY_ORDER = frozenset((End.PREEMPTED, End.RELEASED, End.TIMED_OUT, End.CANCELLED))


@dataclass(frozen=True, slots=True)
class Leaving:
    """Fragments that leave, and the time that those of each training take for it.

    Attributes:
        seen_s: job of a fragment that leaves → the first and the last look that found it leaving.
        took_s: submission → seconds that its fragments take.
    """

    seen_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    took_s: Mapping[str, float] = field(default_factory=dict)

    def until_free(self, ended: Iterable[Fragment]) -> tuple[Fragment, ...]:
        """The fragments, where those that were seen on their nodes after their end have that look as their end."""
        return tuple(
            replace(fragment, ended_s=max(fragment.ended_s, self.seen_s[fragment.job][1]))
            if fragment.ended_s is not None and fragment.job in self.seen_s
            else fragment
            for fragment in ended
        )

    def after(self, facts: Facts) -> Leaving:
        """The record after a look."""
        now_s, bound_s = facts.snapshot.time_s, facts.leaving_bound_s
        leaving = [fragment for fragment in facts.fragments if fragment.is_leaving]
        seen_s = {fragment.job: (self.seen_s.get(fragment.job, (now_s, now_s))[0], now_s) for fragment in leaving}
        present = {*facts.to_tidy, *(request.submission_id for request in facts.requests)}
        took_s = {key: known_s for key, known_s in self.took_s.items() if key in present}
        for fragment in leaving:
            key, since_s = facts.submission_of(fragment), seen_s[fragment.job][0]
            # Slurm kills a fragment after the bound: a longer time is the fault of the node.
            took_s[key] = max(took_s.get(key, 0.0), min(now_s - since_s, bound_s))
        for fragment, free in zip(facts.ended, self.until_free(facts.ended), strict=True):
            if fragment.end in _BY_ORDER and fragment.started_s is not None:
                key, ended_s = facts.submission_of(fragment), fragment.ended_s or 0.0
                # From the order to leave, which is its end time in Slurm, or from the first look that saw it.
                first_s, _ = self.seen_s.get(fragment.job, (ended_s, ended_s))
                lasted_s = min((free.ended_s or 0.0) - min(ended_s, first_s), bound_s)
                # A longer time than before counts at once; a shorter one by half, since one quick end proves
                # little.
                took_s[key] = max(lasted_s, (took_s.get(key, lasted_s) + lasted_s) / 2)
        return Leaving(seen_s, took_s)

    def slow(self, facts: Facts, limit_s: float) -> Mapping[str, float]:
        """Trainer that takes longer than the limit to leave → seconds that it takes."""
        taking = ((request.id, self.took_s.get(request.submission_id, 0.0)) for request in facts.requests)
        return {trainer: took_s for trainer, took_s in taking if took_s > limit_s}
