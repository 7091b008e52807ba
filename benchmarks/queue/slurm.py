"""A Slurm in fast motion: the site's jobs, main scheduler and backfill, and fragments that are preempted."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.live.workload import SiteJob
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Node, NodeState, Partition
from freetrain.lending.shadow import BackfillRules, find_shadow

PARTITION = "freetrain"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in seconds; each is drawn again between half of it and half as much again.

    Attributes:
        clears_up: until the nodes of a job of the site's are free after its end.
        kills: until a fragment that has to go is gone.
        kills_slowly: the same for some: a node's slurmd looks again after a second.
        slow_share: how many these are.
        launches: until a fragment runs.
    """

    clears_up: float = 0.4
    kills: float = 0.1
    kills_slowly: float = 0.9
    slow_share: float = 0.15
    launches: float = 1.0


class SimulatedSlurm:
    """One machine and its queue.

    Args:
        nodes: how many.
        jobs: of the site, in order.
        rules: how it plans; what it would do without fragments is what the shadow schedule says.
        pace: how long things take.
        dice: draws the times, and when the first backfill cycle is.

    Attributes:
        now_s: the time.
        started_s: job → when it started.
        stays: (node, from, until) of each job of the site's.
        lent: the same of each fragment.
        ended: fragments that ended since somebody took them from here.
        last_plan_s: when it last planned.
        tell: is called at each submission, start and end of a job of the site's.
    """

    def __init__(
        self,
        nodes: int,
        jobs: Sequence[SiteJob],
        rules: BackfillRules,
        pace: Pace,
        dice: random.Random,
    ) -> None:
        self.names = tuple(f"n{number:03d}" for number in range(1, nodes + 1))
        self.now_s = 0.0
        self.started_s: dict[int, float] = {}
        self.stays: list[tuple[str, float, float]] = []
        self.lent: list[tuple[str, float, float]] = []
        self.ended: list[Fragment] = []
        self.last_plan_s: float | None = None
        self.tell: Callable[[], None] = lambda: None
        self._jobs, self._rules, self._pace, self._dice = jobs, rules, pace, dice
        self._lends = True
        self._waiting: list[int] = []
        self._running: dict[int, frozenset[str]] = {}
        self._clearing: dict[str, int] = {}
        self._fragments: dict[str, Fragment] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count(1)
        for number, job in enumerate(jobs):
            self.at(job.at_s, partial(self._submit, number))
        self.at(dice.uniform(0.0, rules.interval_s), self._backfill)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that have not ended."""
        return tuple(self._fragments.values())

    def at(self, at_s: float, what: Callable[[], None]) -> None:
        """Let something happen then."""
        heapq.heappush(self._events, (at_s, next(self._order), what))

    def run(self) -> None:
        """Until all jobs have ended."""
        ends = len(self._jobs)
        while self._events and (len(self.started_s) < ends or self._running):
            self.now_s, _, what = heapq.heappop(self._events)
            what()
        for fragment in self.fragments:
            self._end(fragment)

    def snapshot(self) -> Snapshot:
        """What it would show."""
        jobs = [self._job(number, JobState.PENDING) for number in self._waiting]
        jobs += [self._job(number, JobState.RUNNING, nodes) for number, nodes in self._running.items()]
        for name, number in self._clearing.items():
            jobs.append(self._job(number, JobState.COMPLETING, frozenset({name})))
        jobs += [_job_of(one) for one in self.fragments if one.state is not FragmentState.ASKED]
        busy = frozenset().union(*(job.nodes for job in jobs))
        nodes = (Node(name, NodeState.BUSY if name in busy else NodeState.IDLE) for name in self.names)
        every = frozenset(self.names)
        partitions = {"main": Partition("main", every, priority_tier=10), PARTITION: Partition(PARTITION, every)}
        return Snapshot(self.now_s, tuple(nodes), tuple(jobs), partitions=partitions)

    def lend(self, trainer: str, names: Sequence[str], limits_s: Sequence[float]) -> None:
        """Ask for fragments there; where one has yet to go nothing comes of it."""
        for name, limit_s in zip(names, limits_s, strict=True):
            if name in self._fragments or not self._lends:
                continue
            number = next(self._order)
            fragment = Fragment(f"f{number}", trainer, name, FragmentState.ASKED, self.now_s, limit_s, id=number)
            self._fragments[name] = fragment
            self.at(self.now_s + self._drawn(self._pace.launches), partial(self._launch, fragment))

    def lend_no_more(self) -> None:
        """From now on there are no fragments: those that run are gone at once."""
        self._lends = False
        for fragment in self.fragments:
            self._end(fragment)

    def release(self, names: Sequence[str], why: End = End.RELEASED) -> None:
        """End what is lent there."""
        for name in names:
            fragment = self._fragments.get(name)
            if fragment is None or not fragment.goes_on:
                continue
            if fragment.state is FragmentState.ASKED:
                del self._fragments[name]
                continue
            leaving = replace(fragment, state=FragmentState.LEAVING, end=why)
            self._fragments[name] = leaving
            is_slow = self._dice.random() < self._pace.slow_share
            kill_s = self._drawn(self._pace.kills_slowly if is_slow else self._pace.kills)
            self.at(self.now_s + kill_s, partial(self._free, leaving))

    def _submit(self, number: int) -> None:
        self._waiting.append(number)
        self._start(with_backfill=False)
        self.tell()

    def _backfill(self) -> None:
        self.last_plan_s = self.now_s
        self._start(with_backfill=True)
        self.at(self.now_s + self._rules.interval_s, self._backfill)

    def _start(self, with_backfill: bool) -> None:
        """Who can start does; who finds fragments on his nodes has them preempted, and is tried again later."""
        ours = frozenset(one.job for one in self.fragments)
        lent_to = {one.node: one.trainer for one in self.fragments if one.goes_on}
        shadow = find_shadow(self.snapshot(), FragmentQueue(PARTITION), ours, lent_to, self._rules)
        for plan in shadow.plans:
            if plan.start_s > self.now_s or (plan.by_backfill and not with_backfill):
                continue
            if lent := plan.nodes & self._fragments.keys():
                self.release(sorted(lent), End.PREEMPTED)
            elif not plan.nodes & self._clearing.keys():
                self._begin(int(plan.job), plan.nodes)

    def _begin(self, number: int, nodes: frozenset[str]) -> None:
        self._waiting.remove(number)
        self._running[number] = nodes
        self.started_s[number] = self.now_s
        self.at(self.now_s + self._jobs[number].run_s, partial(self._finish, number))
        self.tell()

    def _finish(self, number: int) -> None:
        nodes = self._running.pop(number)
        self.stays += [(name, self.started_s[number], self.now_s) for name in nodes]
        self._clearing |= dict.fromkeys(nodes, number)
        self.at(self.now_s + self._drawn(self._pace.clears_up), partial(self._clear, nodes))

    def _clear(self, nodes: frozenset[str]) -> None:
        for name in nodes:
            del self._clearing[name]
        self._start(with_backfill=False)
        self.tell()

    def _launch(self, asked: Fragment) -> None:
        name = asked.node
        if self._fragments.get(name) != asked:
            return
        if name in self._clearing or any(name in nodes for nodes in self._running.values()):
            del self._fragments[name]
        else:
            self._fragments[name] = replace(asked, state=FragmentState.RUNNING, started_s=self.now_s)

    def _free(self, leaving: Fragment) -> None:
        if self._fragments.get(leaving.node) == leaving:
            self._end(leaving)
            self._start(with_backfill=False)

    def _end(self, fragment: Fragment) -> None:
        del self._fragments[fragment.node]
        if fragment.started_s is not None:
            self.lent.append((fragment.node, fragment.started_s, self.now_s))
            self.ended.append(replace(fragment, state=FragmentState.ENDED, ended_s=self.now_s))

    def _drawn(self, usual_s: float) -> float:
        return usual_s * self._dice.uniform(0.5, 1.5)

    def _job(self, number: int, state: JobState, nodes: frozenset[str] = frozenset()) -> Job:
        job, start_s = self._jobs[number], self.started_s.get(number)
        limit_s = 60.0 * job.limit_min
        return Job(
            str(number), str(number), "site", "main", state, node_count=job.nodes, submitted_s=job.at_s,
            limit_s=limit_s, nodes=nodes, start_s=start_s, end_s=None if start_s is None else start_s + limit_s,
        )  # fmt: skip


def _job_of(fragment: Fragment) -> Job:
    state = JobState.RUNNING if fragment.goes_on else JobState.COMPLETING
    started_s = fragment.started_s or fragment.asked_s
    return Job(
        fragment.job, fragment.job, "us", PARTITION, state, node_count=1, submitted_s=fragment.asked_s,
        limit_s=fragment.limit_s, nodes=frozenset({fragment.node}), start_s=started_s,
        end_s=started_s + fragment.limit_s,
    )  # fmt: skip
