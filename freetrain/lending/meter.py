"""The meter: delays of the site's jobs, measured against their starts if nothing were lent.

The shadow schedule says when a job would have started: not at the look that notices it, but at the submission or
the end of a job that made its start possible; if a job before it still waits, at the first backfill cycle after
that. Delays that follow from other delays, as behind the first in a queue that was late, are not counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.harm import Harm
from freetrain.core.job import Job, JobState
from freetrain.lending.facts import Facts
from freetrain.lending.limit_claims import LimitClaims
from freetrain.lending.rules import HarmRules, NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow

# Slurm counts in whole seconds.
SAME_S = 1.0
_STARTED = (JobState.RUNNING, JobState.COMPLETING)


@dataclass(frozen=True, slots=True)
class Expected:
    """A waiting job that would have started if nothing were lent.

    Attributes:
        start_s: time at which it would have started, UTC epoch seconds.
        noticed_s: time of the look that noticed it.
        fragments: the fragments on its nodes at that look.
        is_firm: whether it would have started by now; until then another job may still come first.
        clear_s: time since which no fragment is in its way any more; None: some are.
        by_limit: those of the fragments that only count in a limit for which it waits.
    """

    start_s: float
    noticed_s: float
    fragments: tuple[str, ...] = ()
    is_firm: bool = True
    clear_s: float | None = None
    by_limit: tuple[str, ...] = ()

    def is_disproved(self, last_plan_s: float | None) -> bool:
        """Whether Slurm has planned since its nodes were free, and did not start it.

        Then it waits for something that the shadow does not know, and was not delayed by fragments before either.
        """
        return self.clear_s is not None and last_plan_s is not None and last_plan_s > self.clear_s + SAME_S


ExpectedStarts = Mapping[str, Expected]
"""Waiting job → its start if nothing were lent."""


def _since_s(job: Job, looked_s: float | None, now_s: float) -> float:
    # A job that is new since the last look could start at once; for any other the last look found no room.
    return job.submitted_s if looked_s is not None and job.submitted_s > looked_s - SAME_S else now_s


def _in_the_way(starting: Mapping[str, PlannedStart], facts: Facts) -> Mapping[str, tuple[str, ...]]:
    """Job that would start now → the fragments on its nodes; if it takes parts, those that give way to it."""
    on_node: defaultdict[str, list[str]] = defaultdict(list)
    on_place: dict[str, str] = {}
    for fragment in facts.fragments if starting else ():
        if fragment.holds_node:
            on_node[fragment.node].append(fragment.job)
            on_place[fragment.place] = fragment.job
    return {
        id_: tuple(
            sorted(
                [job for name in plan.nodes for job in on_node[name]]
                if plan.part is None
                else [on_place[place] for place in plan.back if place in on_place]
            )
        )
        for id_, plan in starting.items()
    }


def _by_limit(claims: LimitClaims, facts: Facts) -> Mapping[str, tuple[str, ...]]:
    """Job that waits for a limit → the fragments that are given back for it and have not left yet."""
    return {
        id_: tuple(fragment for fragment in claim.fragments if fragment in facts.jobs)
        for id_, claim in claims.items()
        if facts.snapshot.job[id_].limit is not None
    }


def ends_by_node(facts: Facts, rules: NodeRules) -> Mapping[str, Sequence[Job]]:
    """Node → the site's jobs that have left it and are still shown."""
    return grouped((name, job) for job in _ended(facts, rules) for name in job.nodes)


def _ended(facts: Facts, rules: NodeRules) -> Iterator[Job]:
    for job in facts.snapshot.site_jobs(rules.queue):
        if job.state.is_final and job.end_s is not None:
            yield job


def _start_s(
    job: Job, plan: PlannedStart, facts: Facts, is_blocked: bool, looked_s: float | None, rules: NodeRules
) -> float:
    """Start of a job if nothing were lent, epoch seconds: last submission or end of a job since the last look."""
    if is_blocked:
        # It has waited for fragments from the start, so no event since the last look made its start possible.
        ended = ends_by_node(facts, rules)
        return max(
            [job.submitted_s, *(fragment.end_s or 0.0 for name in plan.nodes for fragment in ended.get(name, ()))]
        )
    now_s = facts.snapshot.time_s
    happened = [job.submitted_s, *(ended.end_s or now_s for ended in _ended(facts, rules))]
    lately = [at_s for at_s in happened if looked_s is not None and looked_s - SAME_S < at_s <= now_s]
    event_s = max(lately, default=now_s)
    if not plan.by_backfill or facts.last_plan_s is None:
        return event_s
    last_plan_s, interval_s = facts.last_plan_s, rules.backfill.interval_s
    # In the same second it is unknown which came first: the mean is half an interval.
    if event_s == last_plan_s:
        return event_s + interval_s / 2
    return last_plan_s + ceil((event_s - last_plan_s) / interval_s) * interval_s


IN_THE_WAY_S = 600.0
"""Fragments that ended longer ago than this delayed no job."""


@dataclass(frozen=True, slots=True)
class Meter:
    """Record that is kept from look to look to measure delays.

    Attributes:
        began_s: time of the first look; jobs that started before it are not measured.
        expected: waiting job → its start if nothing were lent.
        ready_s: waiting job with no fragment in its way → time since which it could start.
        ended: fragments that ended lately.
        lost: fragments that have left and of whose end accounting does not know yet; as their end, the first look
            that missed them.
        measured: job that started lately → its start, so that it counts once: squeue may drop it for a moment.
        harms: delays, as far back as they count for a back-off.
        new: the delays found at the last look.
    """

    began_s: float | None = None
    looked_s: float | None = None
    expected: ExpectedStarts = field(default_factory=dict)
    ready_s: Mapping[str, float] = field(default_factory=dict)
    ended: tuple[Fragment, ...] = ()
    lost: tuple[Fragment, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)
    harms: tuple[Harm, ...] = ()
    new: tuple[Harm, ...] = ()

    def after(
        self,
        facts: Facts,
        shadow: Shadow,
        blocked: Container[str],
        rules: NodeRules,
        limits: HarmRules,
        claims: LimitClaims = MappingProxyType({}),
    ) -> Meter:
        """The meter after a look.

        In the facts, fragments end when their nodes are free; jobs in ``blocked`` have waited for fragments since
        their submission.
        """
        now_s = facts.snapshot.time_s
        lately = [fragment for fragment in (*self.ended, *facts.ended) if fragment.started_s is not None]
        before = replace(
            self,
            began_s=now_s if self.began_s is None else self.began_s,
            ended=tuple(fragment for fragment in lately if (fragment.ended_s or now_s) > now_s - IN_THE_WAY_S),
            lost=self._lost_in(facts),
        )
        started = {
            job.id: job
            for job in facts.snapshot.site_jobs(rules.queue)
            if job.nodes and (job.state.is_final or job.state in _STARTED)
        }.values()
        sites_ended = ends_by_node(facts, rules)
        found = (before._harm(job, sites_ended, rules, facts.leaving_bound_s) for job in started)
        new = tuple(harm for harm in found if harm is not None)
        oldest_s = now_s - limits.remembered_s
        expected, ready_s = self._expect(facts, shadow, blocked, rules, claims)
        return replace(
            before,
            looked_s=now_s,
            expected=expected,
            ready_s=ready_s,
            measured={
                **{id_: at_s for id_, at_s in self.measured.items() if at_s > now_s - IN_THE_WAY_S},
                **{job.id: job.start_s for job in started if job.start_s is not None},
            },
            harms=(*(harm for harm in self.harms if harm.started_s > oldest_s), *new),
            new=new,
        )

    def _lost_in(self, facts: Facts) -> tuple[Fragment, ...]:
        missed_s = {fragment.job: fragment.ended_s for fragment in self.lost}
        return tuple(
            replace(fragment, ended_s=missed_s.get(fragment.job, facts.snapshot.time_s))
            for fragment in facts.fragments
            if fragment.state is FragmentState.LOST
        )

    def _expect(
        self, facts: Facts, shadow: Shadow, blocked: Container[str], rules: NodeRules, claims: LimitClaims
    ) -> tuple[ExpectedStarts, Mapping[str, float]]:
        """The jobs that wait although they would have started if nothing were lent.

        1. A job that has started, or is gone, is dropped.
        2. A start by backfill counts only if the shadow still has it after that cycle.
        3. A job that did not start while the shadow saw its nodes free waits for something else, and is dropped.
        4. A job that would start now on nodes with fragments is added.

        Returns:
            The expected starts; and job that could start now with no fragment in its way → time since which.
        """
        now_s, looked_s, ready_s = shadow.time_s, self.looked_s, self.ready_s
        waiting = {job.id: job for job in facts.snapshot.site_jobs(rules.queue) if job.state is JobState.PENDING}
        starting = {plan.job: plan for plan in shadow.plans if plan.start_s <= now_s and plan.job in waiting}
        by_limit = _by_limit(claims, facts)
        there = _in_the_way(starting, facts)
        in_the_way = {id_: tuple(sorted({*names, *by_limit.get(id_, ())})) for id_, names in there.items()}
        known: dict[str, Expected] = {}
        for id_, expected in self.expected.items():
            if id_ not in waiting or not (expected.is_firm or id_ in starting):
                continue
            # A job that still waits for a limit in which no fragment counts does so because of others.
            is_clear = not in_the_way[id_] if id_ in starting else waiting[id_].limit is not None
            clear_s = expected.clear_s or now_s if is_clear else None
            if not is_clear or not expected.is_disproved(facts.last_plan_s):
                limits = tuple(sorted({*expected.by_limit, *by_limit.get(id_, ())}))
                is_firm = expected.is_firm or expected.start_s <= now_s
                known[id_] = replace(expected, is_firm=is_firm, clear_s=clear_s, by_limit=limits)
        for id_, plan in starting.items():
            if in_the_way[id_] and id_ not in known:
                start_s = _start_s(waiting[id_], plan, facts, id_ in blocked, looked_s, rules)
                is_firm, limits = not plan.by_backfill, by_limit.get(id_, ())
                # Slurm names the limit seconds after the submission: until then the job seems about to start.
                start_s = min(start_s, ready_s.get(id_, start_s)) if limits else start_s
                known[id_] = Expected(start_s, now_s, in_the_way[id_], is_firm, by_limit=limits)
        new_s = {id_: _since_s(waiting[id_], looked_s, now_s) for id_ in starting if id_ not in known}
        return known, {id_: ready_s.get(id_, since_s) for id_, since_s in new_s.items()}

    def _harm(
        self, job: Job, ended: Mapping[str, Sequence[Job]], rules: NodeRules, leaving_bound_s: float
    ) -> Harm | None:
        start_s = job.start_s
        # Each job counts once, and none that started before the first look.
        if start_s is None or start_s < (self.began_s or 0.0):
            return None
        if abs(self.measured.get(job.id, 0.0) - start_s) <= SAME_S:
            return None
        # A fragment that left before another of the site's jobs had the node delayed that job, not this one.
        since_s = {
            name: max(
                [
                    job.submitted_s,
                    *(fragment.end_s or 0.0 for fragment in ended.get(name, ()) if fragment.id != job.id),
                ]
            )
            for name in job.nodes
        }
        expected = self.expected.get(job.id)
        # Two jobs do not have a node at the same time: a lost fragment had left it when this job started.
        lost = [replace(fragment, ended_s=min(fragment.ended_s or 0.0, start_s)) for fragment in self.lost]
        ended_lately = [*self.ended, *lost]
        in_the_way = [
            fragment
            for fragment in ended_lately
            if fragment.node in job.nodes
            and since_s[fragment.node] <= (fragment.ended_s or 0.0) <= start_s + SAME_S
            if not rules.in_parts or _gave_way(fragment, expected)
        ]
        if expected is None:
            expected = self._between_looks(in_the_way, since_s)
        if expected is None:
            return None
        noticed_s = min(max(expected.noticed_s, expected.start_s), start_s)
        of_limit = [fragment for fragment in ended_lately if fragment.job in expected.by_limit]
        free_s = min(
            max([noticed_s, *(fragment.ended_s or 0.0 for fragment in (*in_the_way, *of_limit))]), start_s
        )
        # A job that does not start on nodes that a look saw free waits for something else: the delay is bounded.
        # If no look saw them free, fragments may have stayed for as long as Slurm lets them.
        most_s = rules.claim_s + (leaving_bound_s if expected.clear_s is None else 0.0)
        window_s = min(max(0.0, start_s - max(free_s, expected.start_s)), most_s)
        names = {*expected.fragments, *(fragment.job for fragment in in_the_way)}
        unnoticed_s, leaving_s = max(0.0, noticed_s - expected.start_s), max(0.0, free_s - noticed_s)
        return Harm(job.id, start_s, unnoticed_s, leaving_s, window_s, tuple(sorted(names)))

    def _between_looks(self, in_the_way: Sequence[Fragment], since_s: Mapping[str, float]) -> Expected | None:
        """The expected start of a job that no look saw waiting, and for which Slurm took nodes back."""
        looked_s = self.looked_s or 0.0
        asked_s = [fragment.asked_s for fragment in in_the_way if (fragment.ended_s or 0.0) >= looked_s - SAME_S]
        if not asked_s:
            return None
        start_s = max([min(asked_s), looked_s, *since_s.values()])
        return Expected(start_s, start_s)


def _gave_way(fragment: Fragment, expected: Expected | None) -> bool:
    """Whether a fragment left its part of a node for a job that started there, and for no other reason."""
    return fragment.end is End.PREEMPTED or (expected is not None and fragment.job in expected.fragments)
