"""The meter: how much later the site's jobs start than they would if nothing were lent.

When a job would have started says the shadow schedule: not at the look that finds it out, but at the submission or
the end of a job that made its start possible, and where a job before it still waits, at the first backfill cycle
after that. Delays that follow from delays, as in a queue of which the first was late, are not counted twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from freetrain.core.fragment import End, Fragment
from freetrain.core.harm import Harm
from freetrain.core.job import Job, JobState
from freetrain.lending.expected_starts import SAME_S, Expected, ExpectedStarts, ends_by_node, expect
from freetrain.lending.facts import Facts
from freetrain.lending.limit_claims import LimitClaims
from freetrain.lending.rules import HarmRules, NodeRules
from freetrain.lending.shadow import Shadow

IN_THE_WAY_S = 600.0
"""Fragments that ended longer ago were in nobody's way."""


@dataclass(frozen=True, slots=True)
class Meter:
    """What is remembered to measure with.

    Attributes:
        began_s: the first look; who started before it is not measured.
        looked_s: the last look.
        expected: waiting job → when it would have started.
        ended: fragments that ended lately.
        measured: jobs that started lately → when; Slurm may show one twice, or not for a moment.
        harms: delays, as far back as they count for a back-off.
        new: those found at the last look.
    """

    began_s: float | None = None
    looked_s: float | None = None
    expected: ExpectedStarts = field(default_factory=dict)
    ended: tuple[Fragment, ...] = ()
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
        leaving_bound_s: float = 0.0,
    ) -> Meter:
        """After a look.

        Args:
            facts: what it showed; fragments end when their nodes are free.
            shadow: what the site's jobs would do if nothing were lent.
            blocked: jobs that have been waiting for fragments from the first.
            rules: how Slurm plans, and which jobs are fragments.
            limits: how far back delays count.
            claims: what is given back for jobs that wait for a limit.
            leaving_bound_s: how long Slurm lets a fragment stay that was ordered to go.
        """
        now_s = facts.snapshot.time_s
        lately = [fragment for fragment in (*self.ended, *facts.ended) if fragment.started_s is not None]
        before = replace(
            self,
            began_s=now_s if self.began_s is None else self.began_s,
            ended=tuple(fragment for fragment in lately if (fragment.ended_s or now_s) > now_s - IN_THE_WAY_S),
        )
        own = [job for job in facts.snapshot.jobs if not rules.queue.has(job)]
        started = {job.id: job for job in own if _has_started(job)}.values()
        new = tuple(before._harms(started, facts, rules, leaving_bound_s))
        oldest_s = now_s - limits.remembered_s
        return replace(
            before,
            looked_s=now_s,
            expected=expect(self.expected, facts, shadow, blocked, self.looked_s, rules, claims),
            measured={
                **{id_: at_s for id_, at_s in self.measured.items() if at_s > now_s - IN_THE_WAY_S},
                **{job.id: job.start_s for job in started if job.start_s is not None},
            },
            harms=(*(harm for harm in self.harms if harm.started_s > oldest_s), *new),
            new=new,
        )

    def _harms(
        self, started: Iterable[Job], facts: Facts, rules: NodeRules, leaving_bound_s: float
    ) -> Iterator[Harm]:
        """The delays of those that have started since the last look."""
        ended = ends_by_node(facts, rules)
        for job in started:
            is_new = job.start_s is not None and abs(self.measured.get(job.id, 0.0) - job.start_s) > SAME_S
            harm = self._harm(job, ended, rules, leaving_bound_s) if is_new else None
            if harm is not None and harm.started_s >= (self.began_s or 0.0):
                yield harm

    def _harm(
        self, job: Job, ended: Mapping[str, Sequence[Job]], rules: NodeRules, leaving_bound_s: float
    ) -> Harm | None:
        start_s = job.start_s or 0.0
        # What left before another of the site's jobs had the node was in that one's way.
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
        in_the_way = [
            fragment
            for fragment in self.ended
            if fragment.node in job.nodes
            and since_s[fragment.node] <= (fragment.ended_s or 0.0) <= start_s + SAME_S
            if not rules.in_parts or _gave_way(fragment, expected)
        ]
        if expected is None:
            expected = self._between_looks(in_the_way, since_s)
        if expected is None:
            return None
        noticed_s = min(max(expected.noticed_s, expected.start_s), start_s)
        of_limit = [fragment for fragment in self.ended if fragment.job in expected.by_limit]
        free_s = min(
            max([noticed_s, *(fragment.ended_s or 0.0 for fragment in (*in_the_way, *of_limit))]), start_s
        )
        # A job that does not start on nodes that were seen free waits for something else; where no look saw them
        # free, fragments may have stayed for as long as Slurm lets them.
        most_s = rules.claim_s + (leaving_bound_s if expected.clear_s is None else 0.0)
        window_s = min(max(0.0, start_s - max(free_s, expected.start_s)), most_s)
        names = {*expected.fragments, *(fragment.job for fragment in in_the_way)}
        unnoticed_s, leaving_s = max(0.0, noticed_s - expected.start_s), max(0.0, free_s - noticed_s)
        return Harm(job.id, start_s, unnoticed_s, leaving_s, window_s, tuple(sorted(names)))

    def _between_looks(self, in_the_way: Sequence[Fragment], since_s: Mapping[str, float]) -> Expected | None:
        """When a job would have started that no look found waiting for fragments: Slurm took nodes back for it."""
        looked_s = self.looked_s or 0.0
        asked_s = [fragment.asked_s for fragment in in_the_way if (fragment.ended_s or 0.0) >= looked_s - SAME_S]
        if not asked_s:
            return None
        start_s = max([min(asked_s), looked_s, *since_s.values()])
        return Expected(start_s, start_s)


def _gave_way(one: Fragment, expected: Expected | None) -> bool:
    """Whether one that left a part of a node did so for a job that began there, rather than for another reason."""
    return one.end is End.PREEMPTED or (expected is not None and one.job in expected.fragments)


def _has_started(job: Job) -> bool:
    return bool(job.nodes) and (job.state.is_final or job.state in (JobState.RUNNING, JobState.COMPLETING))
