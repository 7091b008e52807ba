"""Causes: the party at fault if a fragment fails, or Slurm does not start it. Pure.

The cause is the job, the node, the pair of both, or Slurm's queue; only the cause rests:

1. Slurm's reason for a waiting task distinguishes an obstacle of the job (a dependency, a licence, a limit) from
   one of the node.
2. A program that ends at once with an error on one node and works on another: the pair is at fault. The node is
   not lent to that training for a while; others get it, and the training gets other nodes.
3. A node on which that happens to trainings of several owners is at fault, and is not lent for a while. A training
   that works nowhere counts against no node, since its own program may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.job import Job, WaitsFor
from freetrain.lending.facts import Bar, Facts

AT_ONCE_S = 30.0
"""A program that fails within this time of its start has not worked there: longer ones may have met bad data."""

_REST_S, _LONGEST_REST_S = 60.0, 3600.0
"""Seconds for which a node is not lent to a training whose program failed there at once, at first and at most."""
_OUT_S, _LONGEST_OUT_S = 900.0, 6 * 3600.0
"""Seconds for which a node is not lent where programs of several owners failed at once, at first and at most."""
# The program of one owner may be wrong everywhere; where programs of two fail, the node is suspected.
_OWNERS_TO_BELIEVE = 2
# A program that fails on more nodes than this, and than it runs on, is at fault itself.
_UNSURE = 2
# Two users together must not stop lending: no larger part of all nodes is set aside for their failures.
_MOST_OUT = 0.25
_MOST_DOUBLINGS = 10


class CauseOf(StrEnum):
    """The party at fault for a failure or a wait."""

    JOB = "job"
    NODE = "node"
    PAIR = "pair"
    QUEUE = "queue"


_CAUSE_OF_WAIT = {
    WaitsFor.NODES: CauseOf.NODE,
    WaitsFor.RELEASE: CauseOf.JOB,
    WaitsFor.TIME: CauseOf.QUEUE,
    WaitsFor.OWNERS_LIMIT: CauseOf.JOB,
    WaitsFor.ITSELF: CauseOf.JOB,
    WaitsFor.POSSIBILITY: CauseOf.PAIR,
    WaitsFor.QUEUE: CauseOf.QUEUE,
    WaitsFor.OTHER: CauseOf.PAIR,
}


def cause_of_wait(job: Job | None) -> CauseOf:
    """The party at fault for a fragment that Slurm does not start; None: Slurm does not show its job."""
    if job is None:
        return CauseOf.NODE
    return CauseOf.JOB if job.is_held else _CAUSE_OF_WAIT[job.waits_for]


# A reason that freetrain does not know is none of those for which tasks wait for their node.
_OWN_OBSTACLES = (WaitsFor.OWNERS_LIMIT, WaitsFor.ITSELF, WaitsFor.OTHER)


def has_own_obstacle(job: Job | None) -> bool:
    """Whether Slurm shows that a released task waits for something other than a node."""
    return job is not None and job.state.is_waiting and job.waits_for in _OWN_OBSTACLES and not job.is_held


def failed_at_once(fragment: Fragment) -> bool:
    """Whether its program ended with an error soon after its start."""
    if fragment.end is not End.FAILED or fragment.started_s is None or fragment.ended_s is None:
        return False
    return fragment.ended_s - fragment.started_s <= AT_ONCE_S


def goes_well(fragment: Fragment, now_s: float) -> bool:
    """Whether its program works on its node: it has completed, or has run for longer than :data:`AT_ONCE_S`."""
    if fragment.end is End.COMPLETED:
        return True
    if fragment.started_s is None or fragment.end is End.FAILED:
        return False
    until_s = now_s if fragment.ended_s is None else fragment.ended_s
    is_running = fragment.state is FragmentState.RUNNING or fragment.ended_s is not None
    return is_running and until_s - fragment.started_s > AT_ONCE_S


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Record of failures on a node, for which it is not lent for a while.

    Attributes:
        until_s: time from which it can be lent again, UTC epoch seconds.
    """

    failures: int
    until_s: float

    def after(self, now_s: float, rest_s: float, longest_s: float) -> Suspicion:
        """The suspicion after one more failure, which doubles the rest."""
        # Without a bound the power would become too large for a float.
        return Suspicion(
            self.failures + 1, now_s + min(rest_s * 2 ** min(self.failures, _MOST_DOUBLINGS), longest_s)
        )


_NONE = Suspicion(0, 0.0)


@dataclass(frozen=True, slots=True)
class Suspects:
    """Pairs of submissions and nodes that failed, and nodes that failed for several owners.

    Attributes:
        well_on: submission → the last two nodes on which its program worked.
        pairs: submission and node on which its program failed at once since it last worked there → the suspicion.
        accused_by: node → owners whose programs failed there at once although they worked elsewhere.
        nodes: node that is not lent for that → the suspicion.
        new: node that was not among these at the last look → the owners.
    """

    well_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], Suspicion] = field(default_factory=dict)
    accused_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    nodes: Mapping[str, Suspicion] = field(default_factory=dict)
    new: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def after(self, facts: Facts, most_nodes: int) -> Suspects:
        """The suspects after a look."""
        now_s = facts.snapshot.time_s
        seen = [*facts.ended, *facts.running]
        if not self.well_on and not self.pairs and not self.nodes and not seen:
            return replace(self, new={}) if self.new else self
        submissions = [facts.submission_of(fragment) for fragment in seen]
        known = {*(request.submission_id for request in facts.requests), *submissions}
        well_on = {trainer: nodes for trainer, nodes in self.well_on.items() if trainer in known}
        pairs = {pair: suspicion for pair, suspicion in self.pairs.items() if pair[0] in known}
        accused_by, nodes = dict(self.accused_by), dict(self.nodes)
        for trainer, fragment in zip(submissions, seen, strict=True):
            if goes_well(fragment, now_s):
                node = fragment.node
                # Two are enough to know of a node other than the one on which it fails.
                well_on[trainer] = (node, *(other for other in well_on.get(trainer, ()) if other != node))[:2]
                pairs.pop((trainer, node), None)
                accused_by.pop(node, None)
                nodes.pop(node, None)
        at_once = filter(failed_at_once, facts.ended)
        failed = sorted({(facts.submission_of(fragment), fragment.node) for fragment in at_once})
        owner_of = {request.submission_id: request.owner for request in facts.requests}
        for trainer, node in failed:
            pairs[trainer, node] = pairs.get((trainer, node), _NONE).after(now_s, _REST_S, _LONGEST_REST_S)
            if trainer in owner_of and set(well_on.get(trainer, ())) - {node}:
                accused_by[node] = accused_by.get(node, frozenset()) | {owner_of[trainer]}
        return Suspects(well_on, pairs, accused_by, *self._set_aside(nodes, accused_by, failed, now_s, most_nodes))

    def _set_aside(
        self,
        nodes: dict[str, Suspicion],
        accused_by: Mapping[str, frozenset[str]],
        failed: Iterable[tuple[str, str]],
        now_s: float,
        most_nodes: int,
    ) -> tuple[Mapping[str, Suspicion], Mapping[str, frozenset[str]]]:
        """The nodes that are not lent, and those of them that were lent before."""
        new: dict[str, frozenset[str]] = {}
        # In order: where not all of them may be set aside, it is the same ones whatever the order of a set.
        for node in sorted({node for _, node in failed}):
            out = sum(suspicion.until_s > now_s for suspicion in nodes.values())
            is_out = node in nodes and nodes[node].until_s > now_s
            if len(accused_by.get(node, ())) >= _OWNERS_TO_BELIEVE and (is_out or out < _MOST_OUT * most_nodes):
                nodes[node] = nodes.get(node, _NONE).after(now_s, _OUT_S, _LONGEST_OUT_S)
                new |= {} if is_out else {node: accused_by[node]}
        return nodes, new

    def bars(self, facts: Facts) -> Mapping[str, Bar]:
        """Trainer → the nodes on which its program failed at once a while ago."""
        now_s = facts.snapshot.time_s
        barred = grouped(pair for pair, suspicion in self.pairs.items() if suspicion.until_s > now_s)
        if not barred:
            return {}
        # A program that works nowhere is at fault itself, wherever it is tried.
        runs_on = Counter(map(facts.submission_of, facts.running))
        bars = {}
        for id_, nodes in barred.items():
            if self.well_on.get(id_) or len(nodes) <= max(_UNSURE, runs_on[id_]):
                some = ", ".join(sorted(nodes)[:5])
                why = f"its program ended at once with an error on {some}, which it gets again later"
                bars[id_] = Bar(frozenset(nodes), why)
        own = ((request.id, bars.get(request.submission_id)) for request in facts.requests)
        return {trainer: bar for trainer, bar in own if bar is not None}

    def withheld(self, now_s: float) -> Mapping[str, str]:
        """Nodes that are lent to no trainer → why."""
        return {
            node: f"programs of {len(self.accused_by.get(node, ()))} users that work elsewhere failed here; "
            f"it is tried again in {(suspicion.until_s - now_s) / 60:.0f} min"
            for node, suspicion in self.nodes.items()
            if suspicion.until_s > now_s
        }
