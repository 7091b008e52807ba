"""``python -m benchmarks.filler_model``: how much of shared nodes tasks and trainings could use, by what is known.

A model of ``benchmarks.fillers --shared``, without Slurm: the same jobs of the site's start in order on the first
nodes with room, small ones before a large one that waits if they are over in time; a part that comes free is lent
some seconds later, and half of the parts are the tasks' as long as there are tasks. What differs is what is known
when it is decided where a task begins, and what is given back:

- *whoever has most*: nothing is known, and whoever has most gives back, as freetrain did once
- *who loses least*: trainings give back before tasks, and of tasks the youngest, as freetrain does
- *best guess*: besides, a task begins where those that began so in many other workloads were cut off least
- *all ends known*: the end of each hole and the length of each task; a task begins only where it is not cut off
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import fmean

import click

from benchmarks.fillers import LONGEST_S, SHORTEST_S, drawn_run_s
from benchmarks.live import shared
from benchmarks.live.gpu_figures import gpu_seconds
from benchmarks.live.site import Ran
from benchmarks.live.workload import SiteJob
from freetrain.lab.options import LabOptions

NAMES = tuple(f"n{number:03d}" for number in range(1, shared.NODES + 1))
_OPTIONS = LabOptions(
    nodes=shared.NODES, gpus=shared.GPUS, gpu_type=",".join(shared.TYPES), partitions=shared.PARTITIONS
)
_STEP_S = 0.5
_LEAD_S = 1.0
"""So long before a job of the site's starts its GPUs have been given back."""
_PLANNED_EVERY_S = 5.0
_LIMITS_S = 20.0
"""By so much running jobs are planned to end later than they do."""
_LEARNED_EVERY_S = 7.0
_FEWEST_SEEN = 20

Place = tuple[int, int, int, int]
"""Node, tasks on it with the one that would begin, what the site has there, what the largest job waits for."""


@dataclass
class SiteRuns:
    """What the site's jobs do, whatever is lent.

    Attributes:
        runs: as accounting would tell.
        changes: node → when it changes how many of its GPUs they have, and how many then.
        waiting: when it changes what waits, and how many GPUs of a node the largest job wants then.
    """

    runs: list[Ran] = field(default_factory=list)
    changes: list[list[tuple[float, int]]] = field(default_factory=lambda: [[(-inf, 0)] for _ in NAMES])
    waiting: list[tuple[float, int]] = field(default_factory=lambda: [(-inf, 0)])

    def used(self, node: int, at_s: float) -> int:
        """GPUs of a node that they have."""
        steps = self.changes[node]
        return steps[bisect_right(steps, (at_s, inf)) - 1][1]

    def largest_waiting(self, at_s: float) -> int:
        """What the largest job that waits wants of a node."""
        return self.waiting[bisect_right(self.waiting, (at_s, inf)) - 1][1]

    def more_than_s(self, node: int, gpus: int, from_s: float) -> float:
        """When they next have more than so many GPUs of a node; inf: never."""
        steps = self.changes[node]
        later = steps[bisect_right(steps, (from_s, inf)) :]
        return next((at_s for at_s, used in later if used > gpus), inf)


class _Machine:
    """The site alone: who starts when, and where."""

    def __init__(self) -> None:
        self.free = [shared.GPUS] * len(NAMES)
        self.running: list[tuple[float, int, int]] = []
        self.queue: list[SiteJob] = []
        self.found = SiteRuns()

    def start_in_order(self, now_s: float) -> None:
        """Behind the first job of a partition that cannot start nobody does."""
        blocked: set[str] = set()
        for job in list(self.queue):
            if job.partition in blocked or not self._start(job, self._with_room(job), now_s):
                blocked.add(job.partition)

    def plan(self, now_s: float) -> None:
        """Those behind start too where they do not delay who has been planned before them."""
        planned: list[tuple[float, set[int]]] = []
        for job in list(self.queue):
            end_s = now_s + 60.0 * job.limit_min
            room = self._with_room(job)
            beside = [node for node in room if all(node not in nodes or end_s <= at_s for at_s, nodes in planned)]
            if self._start(job, beside, now_s):
                continue
            times = sorted(
                each for node in nodes_for(job) if (each := (self._room_from_s(node, job), node))[0] < inf
            )
            if len(times) >= job.nodes:
                planned.append((times[job.nodes - 1][0], {node for _, node in times[: job.nodes]}))

    def _with_room(self, job: SiteJob) -> list[int]:
        return [node for node in nodes_for(job) if self.free[node] >= gpus_of(job)]

    def _start(self, job: SiteJob, nodes: Sequence[int], now_s: float) -> bool:
        if len(nodes) < job.nodes:
            return False
        self.queue.remove(job)
        for node in nodes[: job.nodes]:
            self.free[node] -= gpus_of(job)
            heapq.heappush(self.running, (now_s + job.run_s, node, gpus_of(job)))
            self.found.runs.append(
                Ran("", 0.0, now_s, now_s + job.run_s, NAMES[node], "COMPLETED", 0.0, gpus_of(job))
            )
        return True

    def _room_from_s(self, node: int, job: SiteJob) -> float:
        free, at_s = self.free[node], 0.0
        for end_s, where, gpus in sorted(self.running):
            if free >= gpus_of(job):
                break
            if where == node:
                free, at_s = free + gpus, end_s + _LIMITS_S
        return at_s if free >= gpus_of(job) else inf


def play_site(jobs: Iterable[SiteJob]) -> SiteRuns:
    """What becomes of the site's jobs."""
    coming, machine, now_s, plan_s = sorted(jobs, key=lambda job: -job.at_s), _Machine(), 0.0, _PLANNED_EVERY_S
    while coming or machine.queue or machine.running:
        ends_s = machine.running[0][0] if machine.running else inf
        now_s = max(now_s, min(coming[-1].at_s if coming else inf, ends_s, plan_s if machine.queue else inf))
        while coming and coming[-1].at_s <= now_s:
            machine.queue.append(coming.pop())
        while machine.running and machine.running[0][0] <= now_s:
            _, node, gpus = heapq.heappop(machine.running)
            machine.free[node] += gpus
        machine.start_in_order(now_s)
        if now_s >= plan_s:
            machine.plan(now_s)
            plan_s = now_s + _PLANNED_EVERY_S
        machine.found.waiting.append((now_s, max(map(gpus_of, machine.queue), default=0)))
    found = machine.found
    for node, name in enumerate(NAMES):
        own = [one for one in found.runs if one.nodes == name]
        changes = sorted(
            [(one.start_s - _LEAD_S, one.gpus) for one in own] + [(one.end_s, -one.gpus) for one in own],
        )
        for at_s, more in changes:
            found.changes[node].append((at_s, found.changes[node][-1][1] + more))
    return found


def gpus_of(job: SiteJob) -> int:
    """What it wants of each of its nodes."""
    return int(job.gpus.rpartition(":")[2])


def nodes_for(job: SiteJob) -> list[int]:
    """By number."""
    return sorted(map(NAMES.index, shared.nodes_for(job, _OPTIONS)))


@dataclass(eq=False, slots=True)
class Part:
    """A GPU that is lent.

    Attributes:
        node: by number.
        start_s: since when.
        run_s: how long the task there runs; None: a training has it.
    """

    node: int
    start_s: float
    run_s: float | None = None


@dataclass(frozen=True)
class Rules:
    """How it is lent.

    Attributes:
        trainings_first: whether trainings give back before tasks.
        guess: how good a place is for a task; None: whichever node has least left.
        knows_ends: whether a task begins only where it will not be cut off.
    """

    trainings_first: bool = True
    guess: Mapping[Place, float] | None = None
    knows_ends: bool = False


class Lending:
    """Tasks and trainings on what the site leaves.

    Args:
        site: what its jobs do.
        tasks_s: how long each task runs.
        rules: how it is lent.
        start_s: how long it takes until a part that comes free is lent.
    """

    def __init__(self, site: SiteRuns, tasks_s: Sequence[float], rules: Rules, start_s: float) -> None:
        self._site, self._rules, self._start_s = site, rules, start_s
        self._todo, self._left = list(tasks_s), len(tasks_s)
        self._parts: list[Part] = []
        self._rests: list[list[float]] = [[] for _ in NAMES]
        self._used = [0] * len(NAMES)
        self.now_s = 0.0
        self.runs: list[tuple[Ran, bool]] = []
        """What was lent, and whether it was of use."""

    def play(self) -> None:
        """Until all tasks are done."""
        while self._left:
            self._end_tasks()
            self._give_back()
            self._lend()
            self.now_s += _STEP_S
        for part in list(self._parts):
            self._end(part, useful=True)

    def _end(self, part: Part, *, useful: bool) -> None:
        self._parts.remove(part)
        if part.start_s < self.now_s:
            name = NAMES[part.node]
            self.runs.append((Ran("", 0.0, part.start_s, self.now_s, name, "", 0.0, 1), useful))

    def _end_tasks(self) -> None:
        done = [one for one in self._parts if one.run_s is not None and one.start_s + one.run_s <= self.now_s]
        for part in done:
            self._left -= 1
            self._end(part, useful=True)
            self._rests[part.node].append(self.now_s + self._start_s)

    def _give_back(self) -> None:
        for node in range(len(NAMES)):
            used = self._site.used(node, self.now_s)
            self._rests[node] += [self.now_s + self._start_s] * (self._used[node] - used)
            self._used[node] = used
            while (on := self._on(node)) and used + len(on) > shared.GPUS:
                part = max(on, key=self._gives_back)
                self._end(part, useful=part.run_s is None)
                if part.run_s is not None:
                    self._todo.insert(0, part.run_s)

    def _gives_back(self, part: Part) -> tuple[float, float]:
        is_training = part.run_s is None
        if self._rules.trainings_first:
            return float(is_training), part.start_s
        return float(sum((one.run_s is None) == is_training for one in self._parts)), part.start_s

    def _lend(self) -> None:
        self._rests = [[until_s for until_s in its if until_s > self.now_s] for its in self._rests]
        while rooms := [node for node in range(len(NAMES)) if self._room(node) > 0]:
            tasks = sum(one.run_s is not None for one in self._parts)
            task = self._task(rooms) if self._todo and 2 * tasks <= len(self._parts) else None
            if task is None:
                self._parts.append(Part(self._for_training(rooms), self.now_s))
            else:
                node, number = task
                self._parts.append(Part(node, self.now_s, self._todo.pop(number)))

    def _task(self, rooms: Sequence[int]) -> tuple[int, int] | None:
        """The node on which a task begins, and which one; None: none does."""
        if self._rules.knows_ends:
            stays_s = {node: self._stays_s(node) for node in rooms}
            node = max(stays_s, key=lambda node: stays_s[node])
            fitting = [number for number, run_s in enumerate(self._todo) if run_s <= stays_s[node]]
            return (node, max(fitting, key=lambda number: self._todo[number])) if fitting else None
        guess = self._rules.guess
        if guess is not None:
            return max(rooms, key=lambda node: guess.get(self._place(node), 0.0)), 0
        return min(rooms, key=lambda node: (self._room(node), node)), 0

    def _for_training(self, rooms: Sequence[int]) -> int:
        guess = self._rules.guess
        if guess is not None:
            return min(rooms, key=lambda node: guess.get(self._place(node), 0.0))
        return min(rooms, key=lambda node: (self._room(node), node))

    def _stays_s(self, node: int) -> float:
        """For how long one more task could stay there, trainings giving back before it."""
        room = shared.GPUS - self._tasks_on(node) - 1
        return self._site.more_than_s(node, room, self.now_s) - self.now_s - _STEP_S

    def _place(self, node: int) -> Place:
        waits = self._site.largest_waiting(self.now_s)
        return place_of(node, self._tasks_on(node) + 1, self._used[node], waits)

    def _on(self, node: int) -> list[Part]:
        return [one for one in self._parts if one.node == node]

    def _tasks_on(self, node: int) -> int:
        return sum(one.run_s is not None for one in self._on(node))

    def _room(self, node: int) -> int:
        return shared.GPUS - self._used[node] - len(self._on(node)) - len(self._rests[node])


def place_of(node: int, tasks: int, used: int, waiting: int) -> Place:
    """What is told apart when it is guessed for how long a task can stay."""
    return (
        node,
        tasks,
        (used > 0) + (used > shared.GPUS // 2),
        (waiting > 0) + (waiting > 3) + (waiting == shared.GPUS),
    )


def learn(draw: Callable[[int], SiteRuns], seeds: Iterable[int], until_s: float) -> Mapping[Place, float]:
    """Place → the part of all tasks that would have been done there before they were cut off."""
    seen: defaultdict[Place, list[float]] = defaultdict(list)
    for seed in seeds:
        site = draw(seed)
        for step in range(int(until_s / _LEARNED_EVERY_S)):
            at_s = step * _LEARNED_EVERY_S
            for node in range(len(NAMES)):
                used = site.used(node, at_s)
                for tasks in range(1, shared.GPUS - used + 1):
                    stays_s = site.more_than_s(node, shared.GPUS - tasks, at_s) - at_s
                    done = min(max((stays_s - SHORTEST_S) / (LONGEST_S - SHORTEST_S), 0.0), 1.0)
                    seen[place_of(node, tasks, used, site.largest_waiting(at_s))].append(done)
    return {place: fmean(done) for place, done in seen.items() if len(done) >= _FEWEST_SEEN}


@dataclass(frozen=True)
class Shares:
    """Of the GPU-seconds in holes of 15 s and more, lent and of use."""

    lent: float
    useful: float


def shares_of(site: SiteRuns, lending: Lending, until_s: float) -> Shares:
    """Those until then."""
    gpus, least_s = dict.fromkeys(NAMES, shared.GPUS), shared.SHORTEST_HOLE_S
    every, useful = [run for run, _ in lending.runs], [run for run, is_useful in lending.runs if is_useful]
    (idle_s, lent_s), (_, useful_s) = (
        gpu_seconds(site.runs, runs, gpus, (0.0, until_s), 0.0, (least_s,)).in_holes[least_s]
        for runs in (every, useful)
    )
    return Shares(lent_s / idle_s, useful_s / idle_s)


@click.command()
@click.option("--seeds", default=10, show_default=True, help="Workloads.")
@click.option("--tasks", default=200, show_default=True)
@click.option("--minutes", default=20.0, show_default=True, help="The site's jobs are submitted in this time.")
@click.option("--load", default=0.7, show_default=True, help="Share of the machine that they want.")
@click.option("--start", "start_s", default=2.5, show_default=True, help="Seconds until what is free is lent.")
@click.option(
    "--learn-from", default=100, show_default=True, help="Other workloads, from which places are guessed."
)
def main(seeds: int, tasks: int, minutes: float, load: float, start_s: float, learn_from: int) -> None:
    """Print the means over all workloads."""
    until_s = 60.0 * minutes

    def draw(seed: int) -> SiteRuns:
        return play_site(shared.draw_shares(until_s, load, seed))

    guess = learn(draw, range(1000, 1000 + learn_from), until_s)
    kinds = {
        "whoever has most": Rules(trainings_first=False),
        "who loses least": Rules(),
        "best guess": Rules(guess=guess),
        "all ends known": Rules(knows_ends=True),
    }
    sites = {seed: draw(seed) for seed in range(1, seeds + 1)}
    click.echo(f"{'':18} {'until all tasks are done':>32} {'while the jobs come':>22}")
    click.echo(f"{'':18} {'s':>6} {'cut off':>8} {'lent':>8} {'useful':>7} {'lent':>14} {'useful':>7}")
    for name, rules in kinds.items():
        rows = []
        for seed, site in sites.items():
            lending = Lending(site, drawn_run_s(random.Random(seed), tasks), rules, start_s)
            lending.play()
            whole = shares_of(site, lending, lending.now_s)
            busy = shares_of(site, lending, min(lending.now_s, until_s))
            cut_off = float(sum(not is_useful for _, is_useful in lending.runs))
            rows.append((lending.now_s, cut_off, whole.lent, whole.useful, busy.lent, busy.useful))
        wall_s, cut_off_mean, *parts = map(fmean, zip(*rows, strict=True))
        lent, useful, busy_lent, busy_useful = (f"{part:.1%}" for part in parts)
        click.echo(
            f"{name:18} {wall_s:6.0f} {cut_off_mean:8.0f} {lent:>8} {useful:>7} {busy_lent:>14} {busy_useful:>7}"
        )


if __name__ == "__main__":
    main()
