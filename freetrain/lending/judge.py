"""The judge: conclusions from the facts of a look, before anything is decided, and the questions to decide."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import inf
from types import MappingProxyType

from freetrain.core.cluster import Snapshot
from freetrain.core.data_wait import SharedNode
from freetrain.core.decision import Decision
from freetrain.core.fragment import Fragment
from freetrain.core.grouping import grouped
from freetrain.core.place import Place, node_of
from freetrain.core.plan import Action, Limit, Release, TidySubmission
from freetrain.core.power import with_watts
from freetrain.core.problem import Question
from freetrain.core.trainer import Serving
from freetrain.lending.back_off import BackOff, find_back_off
from freetrain.lending.causes import CauseOf, cause_of_wait, has_own_obstacle
from freetrain.lending.facts import Bar, Facts
from freetrain.lending.hole_ends import in_few_classes, next_change_in_line_s
from freetrain.lending.limit_claims import bars_of_limits, without_limits
from freetrain.lending.memory import Memory
from freetrain.lending.node_verdicts import (
    NOT_COMPETING,
    NodeContext,
    Offers,
    bars_of_slow,
    cut_tasks,
    judge_nodes,
    left_alone,
)
from freetrain.lending.rooms import LentParts, Rooms, crowded_out, find_rooms, without_claims
from freetrain.lending.rules import NodeRules, Rules
from freetrain.lending.shadow import NO_SHADOW, PlansCompared, Shadow, compare_plans, find_shadow
from freetrain.lending.sharing.allotment import Allotment, allot, shared_nodes
from freetrain.lending.sharing.claimants import LeftOut, Selection, find_tasks, select
from freetrain.lending.sharing.kinds import ask_by_kind
from freetrain.lending.sightings import Sightings
from freetrain.lending.stays import idle_for_the_site


@dataclass(frozen=True)
class Judgement:
    """Conclusions from a look: orders, questions for the policy, and the memory for the next look.

    Attributes:
        rules: the site's; the horizon is the learned one if none is set.
        rooms: room of each node before anything is decided; None: nodes are lent whole.
        back_off: back-off for which freetrain itself stops lending; None: there is none.
        slow: trainer that takes longer than ``harm.limit`` to leave its nodes → seconds that it takes.
        bars: trainer → the offered places that it does not get.
    """

    facts: Facts
    rules: Rules
    memory: Memory
    shadow: Shadow
    offers: Offers
    selection: Selection
    allotment: Allotment
    rooms: Rooms | None
    back_off: BackOff | None
    slow: Mapping[str, float] = field(default_factory=dict)
    bars: Mapping[str, Bar] = field(default_factory=dict)

    @property
    def now_s(self) -> float:
        """The instant of the look, UTC epoch seconds."""
        return self.facts.snapshot.time_s

    @property
    def stopped(self) -> str:
        """Reason why nothing is lent at all; empty: nodes are lent."""
        return self.facts.orders.stopped or (self.back_off.sentence if self.back_off else "")

    @cached_property
    def hole_ends_s(self) -> Mapping[str, float]:
        """Offered place → time at which its hole ends, or its trainer has to begin to leave; inf: unknown."""
        offered, slow = (*self.offers.offered, *self.allotment.dealt.new), self.slow
        return {offer.name: (offer.until_s or inf) - slow.get(offer.holder or "", 0.0) for offer in offered}

    @property
    def next_change_s(self) -> float:
        """Next time at which what may be lent changes without any event, UTC epoch seconds; inf: never."""
        rules, now_s = self.rules.nodes, self.now_s
        until_s = self.offers.until_s.values()
        ends_s = (at_s for end_s in until_s for at_s in (end_s - rules.shortest_hole_s, end_s) if at_s > now_s)
        return min(
            self.memory.sightings.next_change_s(now_s, rules),
            self.shadow.changes_s,
            next_change_in_line_s(self.shadow, self.facts.snapshot, rules),
            *ends_s,
        )

    @property
    def orders(self) -> Sequence[Action]:
        """Actions to carry out before anything is decided.

        1. What is due is given back. This comes first: a job may wait for it, and a busy Slurm is slow at each
           order.
        2. Submissions are repaired, and the time limits of fragments fitted to their holes.
        3. Nodes that change hands are released.
        """
        facts = self.facts
        due = grouped((why, name) for name, why in self.offers.due.items())
        return (
            *(Release(tuple(names), why) for why, names in due.items()),
            *map(TidySubmission, facts.to_tidy),
            *limits(facts.fragments, self.hole_ends_s, facts.snapshot, self.rules),
            *self.allotment.releases,
        )

    @property
    def horizon_s(self) -> float:
        """Seconds ahead for which value is counted."""
        return self.rules.horizon_s

    @property
    def changes(self) -> float:
        """Number of times that growing and shrinking are charged."""
        return self.rules.changes

    @property
    def done_samples(self) -> Mapping[str, float]:
        """Trainer → samples that it has done."""
        return self.facts.done_samples

    @property
    def serving(self) -> Serving:
        """Trainer → those of its nodes on which it was ordered to run servers."""
        return self.facts.serving

    @property
    def questions(self) -> Sequence[Question]:
        """Questions to decide: which trainers of one owner get which of the nodes that were dealt to it.

        Users do not compete here. If there is no claimant, there is one question without trainers, so that every
        look leaves a decision in the journal.
        """
        requests = {request.id: request for request in self.selection.competing}
        order = {id_: number for number, id_ in enumerate(requests)}
        questions = []
        for claimants, nodes in self.allotment:
            groups = [
                ([requests[want.trainer] for want in claimant.wants], claimant.eligible) for claimant in claimants
            ]
            asked, own = ask_by_kind(nodes, groups, self.facts.snapshot)
            own = tuple(sorted(own, key=lambda trainer: order[trainer.id]))
            offers = in_few_classes(self._believed(asked), self.now_s, self.rules.horizon_s, own)
            worth = claimants[0].worth
            offers = with_watts(offers, self.facts.snapshot, self.rules.draw, self.rules.objective, worth)
            if measured := self.facts.node_traits:
                offers = tuple(place.having(**measured.get(place.node, {})) for place in offers)
            questions.append((offers, own))
        return questions or [((), ())]

    def _believed(self, nodes: Sequence[Place]) -> Sequence[Place]:
        """The nodes with the planned ends that are believed; parts of nodes change names and have no score."""
        if self.rules.nodes.in_parts:
            return nodes
        planned_s = {node.name: node.until_s for node in nodes if node.until_s is not None}
        believed_s = self.memory.planned_stays.believed_s(self.now_s, planned_s, self.rules.horizon_s)
        return [node if node.until_s is None else node.ending(believed_s.get(node.name)) for node in nodes]

    @property
    def plans_compared(self) -> PlansCompared:
        """Slurm's plan compared with the shadow's; an interval and a step of Slurm's planning are allowed."""
        backfill = self.rules.nodes.backfill
        allowed_s = backfill.interval_s + backfill.resolution_s
        return compare_plans(self.shadow, self.facts.snapshot.jobs, allowed_s)

    def limit_s(self, place: str) -> float:
        """Seconds from now for which a place may be lent."""
        return self.rules.limit_s(self.hole_ends_s[place], self.facts.snapshot)

    def shared_nodes(self, lent: Mapping[str, Sequence[str]]) -> Iterable[SharedNode]:
        """The nodes of which trainers are lent these new parts."""
        return shared_nodes(lent, self.facts, self.rooms, self.allotment)

    def remember(self, decisions: Iterable[Decision]) -> Memory:
        """The memory after all decisions."""
        sizes = {trainer: len(names) for decision in decisions for trainer, names in decision.placement.items()}
        declined, changes = self.allotment.declined_after(sizes, self.now_s), self.memory.size_changes
        if not self.facts.orders.paused:
            # Decisions do not cover the nodes that were not offered, which their trainers keep.
            rescaling = (request.id for request in self.facts.requests if request.trainer.rescales)
            before, held = changes.sizes, self.offers.held
            after = {id_: before.get(id_, 0) - held[id_] + sizes.get(id_, 0) for id_ in rescaling}
            changes = changes.after(self.now_s, after)
        return replace(self.memory, declined=declined, size_changes=changes)


def judge(facts: Facts, memory: Memory, rules: Rules) -> Judgement:
    """Judge what a look showed.

    1. What the site's jobs would do if nothing were lent, and how much later they actually start.
    2. What may be lent: each node by itself, by the table of ``node_verdicts.py``.
    3. Which trainers compete, and how the nodes are dealt among their owners; the others keep none. While the site
       pauses lending, nothing is dealt.
    """
    nodes, now_s = rules.nodes, facts.snapshot.time_s
    # First, because the shadow plans only jobs that wait for nodes.
    facts = without_limits(facts, memory.limits, nodes.queue)
    rooms, lent = find_rooms(facts, nodes)
    memory = memory.with_nodes(facts, idle_for_the_site(facts, nodes.queue, rooms, lent), nodes)
    rules = _with_horizon(rules, memory)
    shadow = shadow_of(facts, nodes, memory.sightings, lent, memory.shadow)
    memory = memory.with_harm(facts, shadow, rules)
    back_off = find_back_off(memory.meter.harms, memory.evicted_s, memory.lost, now_s, rules.harm)
    backing_off = back_off.sentence if back_off else ""
    slow = memory.leaving.slow(facts, rules.harm.delay_s)

    rooms, claimed = without_claims(rooms, shadow)
    crowded = crowded_out(facts, lent, nodes.queue)
    # A fragment that was crowded out says nothing against its node, which need not rest.
    late = [fragment for fragment in _not_started(facts, rules) if fragment not in crowded]
    context = NodeContext(facts, memory, shadow, nodes, rooms, claimed, backing_off, crowded, late, slow)
    offers = judge_nodes(context)

    # Before the eligible nodes are found: what a trainer does not get must not be dealt to it.
    left = left_alone(offers, context)
    bars = _merged(
        bars_of_limits(memory.limits, facts, nodes),
        bars_of_slow(offers, context),
        memory.suspects.bars(facts),
        _bars_of_left_alone(left, facts, nodes),
    )
    facts = _beside(_with_bars(facts, bars), left)
    tasks = find_tasks(facts.requests, offers.offered, rooms, facts.snapshot)
    reach = tasks.reach(facts.requests, offers.held)
    selection = _select(facts, offers, reach, rules)
    competing = {request.id for request in selection.competing}
    offers = NOT_COMPETING.applied(offers, replace(context, competing=competing))
    # In a pause nothing changes hands: who has nodes keeps them.
    offered = () if facts.orders.paused else offers.offered
    allotment = allot(facts, offered, selection.competing, memory.declined, rules, tasks, left)
    # A job whose nodes fragments are still leaving is not blamed for the wait: it counts as able to start later.
    still_held = _still_held(facts, shadow, memory)
    at_fault = [
        fragment for fragment in late if cause_of_wait(facts.snapshot.job.get(fragment.job)) is CauseOf.NODE
    ]
    seen = memory.sightings.with_fitting(shadow, still_held).with_start_timeouts(at_fault, now_s, rules.rests_s)
    names = {place.name for place in offers.offered}
    planned_stays = memory.planned_stays.after(now_s, names, offers.until_s, rules.horizon_s)
    memory = replace(
        memory, sightings=seen, declined=allotment.declined, shadow=shadow, planned_stays=planned_stays
    )
    return Judgement(facts, rules, memory, shadow, offers, selection, allotment, rooms, back_off, slow, bars)


def shadow_of(
    facts: Facts,
    rules: NodeRules,
    seen: Sightings,
    parts: LentParts = MappingProxyType({}),
    before: Shadow = NO_SHADOW,
) -> Shadow:
    """The shadow schedule: Slurm's plan of the site's jobs if nothing were lent."""
    snapshot = facts.snapshot
    # A job whose nodes were free for long and that did not start waits for something unknown, so it gets none.
    disbelieved = seen.disbelieved(snapshot.time_s, rules.claim_s)
    return find_shadow(snapshot, rules.queue, facts.jobs, facts.holder, rules.backfill, disbelieved, parts, before)


def _merged(*bars: Mapping[str, Bar]) -> Mapping[str, Bar]:
    """Trainer → the places that it does not get for any of these reasons, and the first reason, which is shown."""
    found: dict[str, Bar] = {}
    for trainer, bar in chain.from_iterable(reason.items() for reason in bars):
        before = found.get(trainer)
        found[trainer] = bar if before is None else Bar(before.places | bar.places, before.why)
    return found


def _with_bars(facts: Facts, bars: Mapping[str, Bar]) -> Facts:
    """The facts, where tasks of these trainers cannot run on what they do not get."""
    if not bars:
        return facts
    requests = []
    for request in facts.requests:
        if request.id in bars:
            excluded = request.needs.excluded | frozenset(map(node_of, bars[request.id].places))
            request = replace(request, needs=replace(request.needs, excluded=excluded))
        requests.append(request)
    return replace(facts, requests=tuple(requests))


def _bars_of_left_alone(left: Sequence[Fragment], facts: Facts, rules: NodeRules) -> Mapping[str, Bar]:
    """Trainers that have as many nodes as they can use on those that are left alone: they get no other."""
    places = rules.queue.among(facts.snapshot.partitions).nodes
    counts = Counter(fragment.trainer for fragment in left)
    bar = Bar(places, "Slurm says nothing certain of its nodes, so nothing is done with them")
    return {id_: bar for id_, own in facts.request.items() if 0 < counts[id_] >= own.trainer.most_nodes}


def _beside(facts: Facts, left: Sequence[Fragment]) -> Facts:
    """The facts, in which trainers ask for as many nodes less as they have on nodes that are left alone."""
    counts = Counter(fragment.trainer for fragment in left)
    requests = []
    for request in facts.requests:
        trainer, most = request.trainer, request.trainer.most_nodes - counts[request.id]
        if counts[request.id] and trainer.can_run and most > 0:
            trainer = replace(trainer, min_nodes=max(1, trainer.min_nodes - counts[request.id]), max_nodes=most)
            request = replace(request, trainer=trainer)
        requests.append(request)
    return replace(facts, requests=tuple(requests)) if counts else facts


def _still_held(facts: Facts, shadow: Shadow, memory: Memory) -> set[str]:
    """The site's jobs that would start now if fragments had left their nodes, or the limit that they wait for."""
    leaving = {fragment.node for fragment in facts.fragments if fragment.is_leaving}
    limited = {job.id for job in facts.snapshot.limited}
    by_limit = {id_ for id_, claim in memory.limits.items() if claim.gone_s is None and id_ in limited}
    if not leaving and not by_limit:
        return set()
    now = (plan for plan in shadow.plans if plan.start_s <= shadow.time_s)
    return {plan.job for plan in now if plan.job in by_limit or not leaving.isdisjoint(plan.nodes)}


def _with_horizon(rules: Rules, memory: Memory) -> Rules:
    if rules.horizon_s:
        return rules
    # Not as long as holes last: most of them are short, and most idle nodes stand in long ones.
    horizon_s = memory.stays.expected_by_age_s
    return replace(rules, horizon_s=horizon_s, changes=memory.size_changes.within(horizon_s))


def _not_started(facts: Facts, rules: Rules) -> list[Fragment]:
    now_s, job = facts.snapshot.time_s, facts.snapshot.job
    late_s = now_s - rules.fragments.start_within_s
    return [
        fragment
        for fragment in facts.fragments
        if fragment.started_s is None
        and (
            fragment.waits_since_before(late_s)
            or (fragment.waits_since_before(now_s) and has_own_obstacle(job.get(fragment.job)))
        )
    ]


def _select(facts: Facts, offers: Offers, reach: Mapping[str, int], rules: Rules) -> Selection:
    held = offers.held
    is_up = rules.nodes.queue.among(facts.snapshot.partitions).is_up
    cut = cut_tasks(facts, offers, rules.nodes)
    requests = [request for request in facts.requests if (is_up or held[request.id]) and request.id not in cut]
    found = select(requests, reach, len(offers.offered), rules.sharing, facts.used_hours)
    left_out = {request.id for request in facts.requests} - {request.id for request in requests}
    others = {
        id_: (LeftOut.NODES_LEAVE, "its nodes are being given back")
        if id_ in cut
        else (LeftOut.PARTITION_DOWN, f"partition {rules.nodes.partition} is down")
        for id_ in left_out
    }
    return replace(found, left_out={**found.left_out, **others})


# A longer limit gains little, and each change is one more request to Slurm.
_LONGER_BY_S = 600.0


def limits(
    fragments: Sequence[Fragment], hole_ends_s: Mapping[str, float], snapshot: Snapshot, rules: Rules
) -> list[Limit]:
    """Changes of time limits: places whose fragments get another limit."""
    longest_s = rules.limit_s(inf, snapshot)
    # By kind, because most fragments are alike: at most looks no limit changes, and none is looked at by itself.
    fitting_s = {
        (started_s, now_s, inf): _fitting_s(started_s, now_s, inf, longest_s, snapshot, rules)
        for started_s, now_s in {(fragment.started_s, fragment.limit_s) for fragment in fragments}
    }
    is_any_end_known = min(hole_ends_s.values(), default=inf) < inf
    if not is_any_end_known and all(fits_s == now_s for (_, now_s, _), fits_s in fitting_s.items()):
        return []
    offered: list[tuple[str, Fragment]] = []
    # A job of several nodes has one time limit: the first of its holes to end counts.
    job_until_s: dict[str, float] = {}
    for fragment in fragments:
        place = rules.nodes.place_of(fragment)
        until_s = hole_ends_s.get(place) if fragment.goes_on else None
        if until_s is None:
            continue
        offered.append((place, fragment))
        if until_s < inf:
            job_until_s[fragment.job] = min(until_s, job_until_s.get(fragment.job, inf))
    changed: defaultdict[float, list[str]] = defaultdict(list)
    for place, fragment in offered:
        key = fragment.started_s, fragment.limit_s, job_until_s.get(fragment.job, inf)
        limit_s = fitting_s.get(key)
        if limit_s is None:
            limit_s = fitting_s[key] = _fitting_s(*key, longest_s, snapshot, rules)
        if limit_s != fragment.limit_s:
            changed[limit_s].append(place)
    return [Limit(tuple(places), limit_s) for limit_s, places in changed.items()]


def _fitting_s(
    started_s: float | None, limit_s: float, hole_end_s: float, longest_s: float, snapshot: Snapshot, rules: Rules
) -> float:
    """A fragment's limit, if that will do, or a better one, in whole minutes; ``longest_s`` from now at most."""
    if started_s is None:
        # Slurm starts nothing whose limit reaches into a planned job or a reservation.
        return min(limit_s, whole_minutes_s(rules.limit_s(hole_end_s, snapshot)))
    # It runs, so nothing has to be planned any more.
    wanted_s = whole_minutes_s(min(hole_end_s, snapshot.time_s + longest_s) - started_s)
    too_short = wanted_s > limit_s + max(_LONGER_BY_S, rules.fragments.longest_s / 4)
    return wanted_s if wanted_s < limit_s or too_short else limit_s


def whole_minutes_s(seconds: float) -> float:
    """Seconds of a time limit in whole minutes, rounded down, as Slurm counts limits: one minute at least."""
    return max(60.0, seconds // 60 * 60)
