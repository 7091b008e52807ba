"""The meter: how much later the site's jobs start than they would if nothing were lent.

When a job would have started says the shadow schedule: not at the look that finds it out, but at the submission or
the end of a job that made its start possible, and where a job before it still waits, at the first backfill cycle
after that. Delays that follow from delays, as in a queue of which the first was late, are not counted twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from freetrain.core.cluster import Job, JobState, Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.harm import Harm
from freetrain.lending.facts import Facts
from freetrain.lending.rules import HarmRules, NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow

_REMEMBERED_S = 600.0
"""Fragments that ended longer ago were in nobody's way."""
_SAME_S = 1.0
"""Slurm counts in whole seconds."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A waiting job that would have started if nothing were lent.

    Attributes:
        start_s: when, UTC epoch seconds.
        noticed_s: the look that found it out.
        fragments: those that were on its nodes then.
        is_firm: whether it would have started by now; until then something else may still come in its way.
    """

    start_s: float
    noticed_s: float
    fragments: tuple[str, ...]
    is_firm: bool = True


@dataclass(frozen=True, slots=True)
class Meter:
    """What is remembered to measure with.

    Attributes:
        began_s: the first look; who started before it is not measured.
        looked_s: the last look.
        expected: waiting job → when it would have started.
        ended: fragments that ended lately.
        measured: jobs that started lately → when; Slurm may show one twice, or not for a moment.
        harms: delays, as far back as they count for a pause.
        new: those found at the last look.
    """

    began_s: float | None = None
    looked_s: float | None = None
    expected: Mapping[str, Expected] = field(default_factory=dict)
    ended: tuple[Fragment, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)
    harms: tuple[Harm, ...] = ()
    new: tuple[Harm, ...] = ()

    def after(
        self, facts: Facts, shadow: Shadow, blocked: Container[str], rules: NodeRules, limits: HarmRules
    ) -> Meter:
        """After a look.

        Args:
            facts: what it showed.
            shadow: what the site's jobs would do if nothing were lent.
            blocked: jobs that have been waiting for fragments from the first.
            rules: how Slurm plans, and which partition is freetrain's.
            limits: how far back delays count.
        """
        now_s = facts.snapshot.time_s
        lately = [one for one in (*self.ended, *facts.ended) if one.started_s is not None]
        before = replace(
            self,
            began_s=now_s if self.began_s is None else self.began_s,
            ended=tuple(one for one in lately if (one.ended_s or now_s) > now_s - _REMEMBERED_S),
        )
        own = [job for job in facts.snapshot.jobs if job.partition != rules.partition]
        started = {job.id: job for job in own if _has_started(job)}.values()
        new = tuple(before._harms(started, facts.snapshot, rules))
        oldest_s = now_s - limits.within_s - limits.pause_s
        return replace(
            before,
            looked_s=now_s,
            expected=before._expectations(facts, shadow, blocked, own, rules),
            measured={
                **{id_: at_s for id_, at_s in self.measured.items() if at_s > now_s - _REMEMBERED_S},
                **{job.id: job.start_s for job in started if job.start_s is not None},
            },
            harms=(*(one for one in self.harms if one.started_s > oldest_s), *new),
            new=new,
        )

    def _harms(self, started: Iterable[Job], snapshot: Snapshot, rules: NodeRules) -> Iterator[Harm]:
        """The delays of those that have started since the last look."""
        left_s = _left_s(snapshot, rules.partition)
        for job in started:
            is_new = job.start_s is not None and abs(self.measured.get(job.id, 0.0) - job.start_s) > _SAME_S
            harm = self._harm(job, left_s, rules.claim_s) if is_new else None
            if harm is not None and harm.started_s >= (self.began_s or 0.0):
                yield harm

    def _harm(self, job: Job, left_s: Mapping[str, float], most_window_s: float) -> Harm | None:
        start_s = job.start_s or 0.0
        in_the_way = [
            one
            for one in self.ended
            if one.node in job.nodes and job.submitted_s <= (one.ended_s or 0.0) <= start_s + _SAME_S
        ]
        expected = self.expected.get(job.id) or _between_looks(job, in_the_way, left_s)
        if expected is None:
            return None
        noticed_s = min(max(expected.noticed_s, expected.start_s), start_s)
        free_s = min(max([noticed_s, *(one.ended_s or 0.0 for one in in_the_way)]), start_s)
        # Who does not start on nodes that are free waits for something else.
        window_s = min(max(0.0, start_s - max(free_s, expected.start_s)), most_window_s)
        names = {*expected.fragments, *(one.job for one in in_the_way)}
        unnoticed_s, leaving_s = max(0.0, noticed_s - expected.start_s), max(0.0, free_s - noticed_s)
        return Harm(job.id, start_s, unnoticed_s, leaving_s, window_s, tuple(sorted(names)))

    def _expectations(
        self, facts: Facts, shadow: Shadow, blocked: Container[str], own: Sequence[Job], rules: NodeRules
    ) -> Mapping[str, Expected]:
        """Who waits although it would have started; what was found out first holds once that moment is over."""
        left_s = _left_s(facts.snapshot, rules.partition)
        lent_to = {one.node: one.job for one in facts.fragments if one.holds_node}
        waiting = {job.id: job for job in own if job.state is JobState.PENDING}
        starting = [plan for plan in shadow.plans if plan.start_s <= shadow.time_s]
        still = {plan.job for plan in starting}
        known = {
            id_: replace(one, is_firm=one.is_firm or one.start_s <= shadow.time_s)
            for id_, one in self.expected.items()
            if id_ in waiting and (one.is_firm or id_ in still)
        }
        for plan in starting:
            fragments = tuple(sorted(lent_to[name] for name in plan.nodes if name in lent_to))
            if fragments and plan.job in waiting and plan.job not in known:
                job = waiting[plan.job]
                if job.id in blocked:
                    start_s = max([job.submitted_s, *(left_s.get(name, 0.0) for name in plan.nodes)])
                else:
                    start_s = self._possible_s(job, plan, facts, own, rules)
                known[job.id] = Expected(start_s, shadow.time_s, fragments, is_firm=not plan.by_backfill)
        return known

    def _possible_s(
        self, job: Job, plan: PlannedStart, facts: Facts, own: Sequence[Job], rules: NodeRules
    ) -> float:
        """When it would have started: after the last of what happened since the last look."""
        now_s, since_s = facts.snapshot.time_s, self.looked_s
        happened = [job.submitted_s, *(one.end_s for one in own if one.state.is_final and one.end_s is not None)]
        lately = [at_s for at_s in happened if since_s is not None and since_s - _SAME_S < at_s <= now_s]
        event_s = max(lately, default=now_s)
        if not plan.by_backfill or facts.last_plan_s is None:
            return event_s
        interval_s = rules.backfill.interval_s
        return facts.last_plan_s + ceil((event_s - facts.last_plan_s) / interval_s) * interval_s


def _between_looks(job: Job, in_the_way: Sequence[Fragment], left_s: Mapping[str, float]) -> Expected | None:
    """When a job would have started that was not seen to be kept waiting: Slurm took nodes back for it."""
    if not in_the_way:
        return None
    own_s = [left_s[name] for name in job.nodes if left_s.get(name, job.start_s or 0.0) < (job.start_s or 0.0)]
    since_s = max([job.submitted_s, min(one.asked_s for one in in_the_way), *own_s])
    return Expected(since_s, since_s, ())


def paused_until_s(harms: Iterable[Harm], limits: HarmRules) -> float:
    """Until when nothing is lent because the site's jobs had to wait too often; 0: never."""
    bad_s = sorted(harm.started_s for harm in harms if harm.delay_s > limits.delay_s)
    windows = zip(bad_s, bad_s[limits.allowed :], strict=False)
    return max((last + limits.pause_s for first, last in windows if last - first <= limits.within_s), default=0.0)


def _left_s(snapshot: Snapshot, partition: str) -> Mapping[str, float]:
    """Node → when the last of the site's jobs left it, of those that are still shown."""
    left: dict[str, float] = {}
    for job in snapshot.jobs:
        if job.partition != partition and job.state.is_final and job.end_s is not None:
            for name in job.nodes:
                left[name] = max(job.end_s, left.get(name, 0.0))
    return left


def _has_started(job: Job) -> bool:
    return bool(job.nodes) and (job.state.is_final or job.state in (JobState.RUNNING, JobState.COMPLETING))
