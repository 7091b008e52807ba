"""Lent nodes: fragments, and how long orders, starts, boots and ends take; when Slurm's backfill cycles begin."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import count
from math import ceil, inf

from freetrain.core.amounts import Amount
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.place import Lease, node_of
from freetrain.core.quick_enum import quick
from freetrain.replay.trainer_run import TrainerRun

_LIMITS_EVERY_S = 30.0
"""``PERIODIC_TIMEOUT`` in ``src/slurmctld/controller.c`` of Slurm 22.05."""


_Lose = Callable[[set[str], float], None]
"""A training's way to lose places at an instant."""


@dataclass(frozen=True, slots=True)
class Wakes:
    """Seconds until a look knows what has happened, as measured on virtual sites of 16 nodes.

    Attributes:
        submission_s: from a submission: half of 374 were known after this time, counted from the full second that
            ``sacct`` names.
        end_s: from the end of a job: the mean of 589.
    """

    submission_s: float = 0.7
    end_s: float = 0.4


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, as they were measured on a Slurm 22.05 with nodes of one virtual machine.

    Attributes:
        poll_s: from one look to the next.
        wakes: delays of looks when something happens; None: only polls look.
        order_s: from the order until Slurm has it, the mean of 32 for up to six nodes each.
        launch_s: from the order until a fragment runs, the mean of 982; while a job of the site waits only the
            next of Slurm's backfill cycles starts it that finds it there, since its partition comes after the
            site's.
        boot_s: from then until the node trains, where the trainer does not say: Python, torch, the data set, the
            connection to the others.
        leave_s: from the order to end a fragment until its node is free.
        evict_s: the same where Slurm takes the node for a job that starts.
    """

    poll_s: float = 10.0
    wakes: Wakes | None = None
    order_s: float = 0.5
    launch_s: float = 1.3
    boot_s: float = 8.0
    leave_s: float = 0.5
    evict_s: float = 1.0

    def limit_checked_s(self, over_s: float) -> float:
        """Time at which Slurm ends a job whose limit is over at ``over_s``: it looks for that every 30 s."""
        return ceil(over_s / _LIMITS_EVERY_S) * _LIMITS_EVERY_S if over_s < inf else inf


class BackfillCycles:
    """Starts of Slurm's backfill cycles.

    Slurm looks once a second whether the interval is over and anything has changed since it last planned
    (``backfill_agent`` in ``src/plugins/sched/backfill/backfill.c`` of Slurm 22.05). So on a busy machine one
    cycle follows the other, after a quiet while a change is answered within a second, and no clock sets their
    phase.
    """

    def __init__(self, interval_s: float, begin_s: float) -> None:
        self._interval_s = interval_s
        self._last_s = self._next_s = begin_s

    def note_change(self, at_s: float) -> None:
        """Note that something changes: a job comes, starts or ends, or an order reaches Slurm."""
        if self._next_s <= at_s:
            self._last_s = self._next_s
        if self._next_s == self._last_s:
            # Slurm looks at full seconds since the last cycle.
            self._next_s += max(self._interval_s, ceil(at_s - self._last_s))

    def last_s(self, now_s: float) -> float:
        """Time at which the last cycle began, this moment included."""
        return self._next_s if self._next_s <= now_s else self._last_s

    @property
    def next_s(self) -> float:
        """Time of the cycle that answers the last change; it may have begun already."""
        return self._next_s


@quick
class _FragmentStep(IntEnum):
    IS_QUEUED = 0
    MAY_START = 1
    TRAINS = 2
    IS_GONE = 3
    IS_TIMED_OUT = 4


class LentNodes:
    """Fragments from the order to the end, and the trainings on their nodes.

    Args:
        each: trainer → amount that one of its fragments has of a node; None: all of it.

    Attributes:
        queued: numbers of those that Slurm has been asked to start, and has not.
        running_of: trainer → number of its fragments that Slurm has started and that are not gone.
        node_s: seconds of nodes that had running fragments, until these were gone or a job of the site's started.
        ended: fragments that ended since they were last taken from here.
    """

    def __init__(
        self, runs: Mapping[str, TrainerRun], timing: Timing, each: Mapping[str, Amount] | None = None
    ) -> None:
        self._runs = runs
        self._timing = timing
        self._each = each
        self._fragments: dict[int, Fragment] = {}
        self._on: dict[str, int] = {}
        self._running_on: defaultdict[str, set[int]] = defaultdict(set)
        self.running_of: Counter[str] = Counter()
        self._gone_s: dict[int, float] = {}
        self._taken_s: dict[int, float] = {}
        self._steps: list[tuple[float, int, _FragmentStep, int]] = []
        self._order = count()
        self._numbers = count(1)
        self.queued: set[int] = set()
        self.node_s = 0.0
        self.times: list[Lease] = []
        self.ended: list[Fragment] = []

    @property
    def next_s(self) -> float:
        """Time of the next step of a fragment; inf: there is none."""
        return self._steps[0][0] if self._steps else inf

    @property
    def open(self) -> tuple[Fragment, ...]:
        """Fragments that have not ended."""
        return tuple(self._fragments.values())

    def holder_of(self, node: str) -> str | None:
        """The trainer that has the node; None: nobody."""
        return self._fragments[self._on[node]].trainer if node in self._on else None

    def lend(self, trainer: str, nodes: Iterable[str], limits_s: Iterable[float], now_s: float) -> None:
        """Ask for a fragment on each of these nodes, or new places."""
        for node, limit_s in zip(nodes, limits_s, strict=True):
            number, host = next(self._numbers), node if self._each is None else node_of(node)
            fragment = Fragment(str(number), trainer, host, FragmentState.ASKED, now_s, limit_s, id=number)
            self._fragments[number] = fragment
            self._on[self._place_of(fragment)] = number
            order_s, launch_s = min(self._timing.order_s, self._timing.launch_s), self._timing.launch_s
            self._later(now_s + order_s, _FragmentStep.IS_QUEUED, number)
            self._later(now_s + launch_s, _FragmentStep.MAY_START, number)

    def start(
        self,
        has_room: Callable[[Fragment], bool],
        wanted_s: Mapping[str, float],
        now_s: float,
        by_backfill: bool = False,
    ) -> None:
        """Let Slurm start queued fragments where there is room and they end before a job is planned there.

        ``by_backfill``: a cycle takes all that it finds; else each needs its time.
        """
        # Slurm takes jobs of one priority in the order of their submission.
        for fragment in [self._fragments[number] for number in sorted(self.queued)]:
            if not by_backfill and now_s < fragment.asked_s + self._timing.launch_s:
                continue
            ends_in_time = fragment.node not in wanted_s or now_s + fragment.limit_s < wanted_s[fragment.node]
            # Slurm starts a job by backfill only if its time limit ends before the start that it has planned
            # there.
            if ends_in_time and has_room(fragment):
                self._start(fragment, now_s)

    def limit(self, nodes: Iterable[str], limit_s: float) -> None:
        """Change the time limit of the fragments that have these nodes."""
        for number in (self._on[node] for node in nodes):
            fragment = replace(self._fragments[number], limit_s=limit_s)
            self._fragments[number] = fragment
            if fragment.started_s is not None:
                self._later(
                    self._timing.limit_checked_s(fragment.started_s + limit_s), _FragmentStep.IS_TIMED_OUT, number
                )

    def release(self, nodes: Iterable[str], trainer: str | None, now_s: float) -> None:
        """End the fragments that have these nodes, in good order; ``trainer``: only its own, None: all."""
        there = (self._fragments[self._on[node]] for node in nodes)
        leaving = [fragment for fragment in there if fragment.goes_on and trainer in (None, fragment.trainer)]
        self._let_leave(leaving, End.RELEASED, now_s, now_s + self._timing.leave_s)

    def take(self, starts: Sequence[Iterable[str]], now_s: float) -> list[float]:
        """Let jobs of the site start on these nodes, job by job; seconds that each waits for fragments."""
        return self._give_way([[self._on[node] for node in nodes if node in self._on] for nodes in starts], now_s)

    def call_off(self, nodes: Iterable[str], now_s: float) -> None:
        """Call off the fragments on these nodes that Slurm has not started."""
        for fragment in [self._fragments[self._on[node]] for node in nodes if node in self._on]:
            if fragment.state is FragmentState.ASKED:
                self._end(fragment, End.NEVER_STARTED, now_s)

    def lose(self, nodes: Iterable[str], now_s: float) -> None:
        """Take these nodes out of service; fragments that run there end at once."""
        running = self._taken([self._on[node] for node in nodes if node in self._on], now_s)
        lost = [self._fragments[number] for number in running if number not in self._gone_s]
        self._let_leave(lost, End.NODE_FAILED, now_s, now_s)

    def make_room(self, starts: Sequence[Mapping[str, Amount]], now_s: float) -> list[float]:
        """Let jobs of the site start, each leaving so much of its nodes; seconds that each waits for fragments.

        Those that leave already make way first, then the youngest.
        """
        leaving = set(self._gone_s)
        ways: list[list[int]] = []
        for left in starts:
            way: list[int] = []
            for node, room in left.items():
                on = sorted(self._running_on[node], key=lambda number: (number not in leaving, -number))
                while on and not self._sum(on).fits(room):
                    way.append(on.pop(0))
            leaving.update(way)
            ways.append(way)
        return self._give_way(ways, now_s)

    def running_on(self, node: str) -> Amount:
        """Amount of a node that fragments have which Slurm has started there and which are not gone."""
        return self._sum(self._running_on.get(node, ()))

    def _sum(self, numbers: Iterable[int]) -> Amount:
        each = self._each or {}
        return sum((each[self._fragments[number].trainer] for number in numbers), Amount())

    def _give_way(self, ways: Sequence[Sequence[int]], now_s: float) -> list[float]:
        """Let fragments give way to jobs of the site that start at one instant; seconds that each job waits."""
        running = [self._taken(way, now_s) for way in ways]
        evicted = dict.fromkeys(number for way in running for number in way if number not in self._gone_s)
        preempted = [self._fragments[number] for number in evicted]
        self._let_leave(preempted, End.PREEMPTED, now_s, now_s + self._timing.evict_s)
        return [max([now_s, *(self._gone_s[number] for number in way)]) - now_s for way in running]

    def _taken(self, numbers: Iterable[int], now_s: float) -> list[int]:
        """The running ones of these fragments, whose nodes count as lent no longer; the others go on waiting."""
        running = [number for number in numbers if self._fragments[number].started_s is not None]
        for number in running:
            # The first job that takes the node counts: from then on the node is not idle, and so not lent.
            self._taken_s.setdefault(number, now_s)
        return running

    def _let_leave(self, leaving: Iterable[Fragment], end: End, now_s: float, gone_s: float) -> None:
        of_trainer: defaultdict[str, list[Fragment]] = defaultdict(list)
        for fragment in leaving:
            of_trainer[fragment.trainer].append(fragment)
        # A training is hurt once, however many of its nodes go at this instant.
        for trainer, fragments in of_trainer.items():
            run = self._runs[trainer]
            ways: Mapping[End, _Lose] = {
                End.RELEASED: run.shrink,
                End.TIMED_OUT: run.lose_unasked,
                End.PREEMPTED: run.evict,
                End.NODE_FAILED: run.evict,
            }
            # Those that boot do not train yet, and are lost all the same.
            ways[end](set(map(self._place_of, fragments)), now_s)
            for fragment in fragments:
                self._leave(fragment, end, gone_s)

    def complete(self, trainer: str, now_s: float) -> None:
        """End the fragments of a training that is over: they end by themselves."""
        for fragment in [fragment for fragment in self._fragments.values() if fragment.trainer == trainer]:
            self._end(fragment, End.COMPLETED, now_s)

    def advance(self, now_s: float) -> bool:
        """Take the fragments' steps that are due; whether a training or a node is concerned."""
        training: defaultdict[str, list[str]] = defaultdict(list)
        happened = False
        while self._steps and self._steps[0][0] <= now_s:
            at_s, _, step, number = heapq.heappop(self._steps)
            fragment = self._fragments.get(number)
            # It ended before: what was noted of its further life is still in the heap.
            if fragment is None:
                continue
            happened = happened or step not in (_FragmentStep.IS_QUEUED, _FragmentStep.MAY_START)
            if step is _FragmentStep.IS_QUEUED and fragment.goes_on:
                self.queued.add(number)
            elif step is _FragmentStep.TRAINS and fragment.goes_on:
                training[fragment.trainer].append(self._place_of(fragment))
            elif step is _FragmentStep.IS_GONE:
                self._end(fragment, fragment.end or End.RELEASED, at_s)
            # Its limit may have been changed since this was noted.
            elif step is _FragmentStep.IS_TIMED_OUT and self._is_over(fragment, at_s):
                self._let_leave([fragment], End.TIMED_OUT, at_s, at_s + self._timing.leave_s)
        for trainer, nodes in training.items():
            self._runs[trainer].grow(nodes, now_s)
        return happened

    def _place_of(self, fragment: Fragment) -> str:
        return fragment.node if self._each is None else fragment.place

    def _start(self, fragment: Fragment, at_s: float) -> None:
        self.queued.remove(fragment.id)
        self._running_on[fragment.node].add(fragment.id)
        self.running_of[fragment.trainer] += 1
        self._fragments[fragment.id] = _later_on(fragment, FragmentState.RUNNING, started_s=at_s)
        boot_s = self._runs[fragment.trainer].trainer.boot_s or self._timing.boot_s
        self._later(at_s + boot_s, _FragmentStep.TRAINS, fragment.id)
        self._later(self._timing.limit_checked_s(at_s + fragment.limit_s), _FragmentStep.IS_TIMED_OUT, fragment.id)

    def _is_over(self, fragment: Fragment, at_s: float) -> bool:
        return fragment.goes_on and (fragment.started_s or at_s) + fragment.limit_s <= at_s

    def _leave(self, fragment: Fragment, end: End, gone_s: float) -> None:
        self._fragments[fragment.id] = _later_on(fragment, FragmentState.LEAVING, end=end)
        self._gone_s[fragment.id] = gone_s
        self.queued.discard(fragment.id)
        self._later(gone_s, _FragmentStep.IS_GONE, fragment.id)

    def _end(self, fragment: Fragment, end: End, at_s: float) -> None:
        del self._fragments[fragment.id]
        place = self._place_of(fragment)
        # The place may have been lent again while this fragment left.
        if self._on.get(place) == fragment.id:
            del self._on[place]
        self.queued.discard(fragment.id)
        self._gone_s.pop(fragment.id, None)
        until_s = self._taken_s.pop(fragment.id, at_s)
        if fragment.started_s is not None:
            self._running_on[fragment.node].discard(fragment.id)
            self.running_of[fragment.trainer] -= 1
            counts_as = self._runs[fragment.trainer].counts_as
            self.node_s += counts_as * max(0.0, until_s - fragment.started_s)
            if self._each is not None and until_s > fragment.started_s:
                self.times.append(Lease(place, fragment.trainer, fragment.started_s, until_s))
        self.ended.append(_later_on(fragment, FragmentState.ENDED, end=end, ended_s=at_s))

    def _later(self, at_s: float, step: _FragmentStep, number: int) -> None:
        if at_s < inf:
            # The running number answers equal instants in the order in which they were noted.
            heapq.heappush(self._steps, (at_s, next(self._order), step, number))


def _later_on(
    fragment: Fragment,
    state: FragmentState,
    started_s: float | None = None,
    end: End | None = None,
    ended_s: float | None = None,
) -> Fragment:
    # Not dataclasses.replace(): long logs have millions of fragments, and it would take three times as long.
    started_s = fragment.started_s if started_s is None else started_s
    job, trainer, node, asked_s = fragment.job, fragment.trainer, fragment.node, fragment.asked_s
    return Fragment(job, trainer, node, state, asked_s, fragment.limit_s, started_s, ended_s, end, id=fragment.id)
