"""Synergy (OSDI 2022): CPUs and memory of shared servers by what trainings can use of them.

A training's *profile* says what CPUs and memory do for it, a *board* which training has how much of which server.

TUNE: each training gets what it can use, and what it has beyond its share goes first where GPUs wait. No training
is slower than with the proportional share of what its server offers, and no GPU is left idle for want of CPUs or
memory: while no training on a server has more than its share, what is free of it is at least the share of its free
GPUs.

OPT: the split of one server's CPUs and memory that makes its trainings fastest together, by HiGHS. Both are
finishers of decisions: a new task gets never less than it asks for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import WAITS, DataWait, NewPart, SharedNode, WaitProfile
from freetrain.guest.guest import Ask
from freetrain.policies.binary_programme import HIGHS, BinaryProgramme, LinearRow, solve_in_guest


@dataclass(frozen=True)
class Profile:
    """Rates at points of CPUs and memory for each GPU, relative to the rate at the GPU's share of both.

    Attributes:
        cpus: for each GPU, ascending.
        memory_gb: for each GPU, ascending.
        rates: of each memory size a row, of each number of CPUs a column.
    """

    cpus: tuple[float, ...]
    memory_gb: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]

    def rate(self, cpus: float, memory_gb: float) -> float:
        """The rate with at least so much; 0 below the smallest point, and no promise between two points.

        A data set that does not quite fit into memory is as slow as one that does not fit at all.
        """
        # Amounts per GPU are quotients, and may miss a point in the last place.
        column = bisect_right(self.cpus, cpus + 1e-9) - 1
        row = bisect_right(self.memory_gb, memory_gb + 1e-9) - 1
        return self.rates[row][column] if column >= 0 and row >= 0 else 0.0

    @cached_property
    def demand(self) -> tuple[float, float]:
        """The least CPUs, and with them the least memory, at which it is as fast as it can be."""
        return self.demand_within(inf, inf)

    def demand_within(self, cpus: float, memory_gb: float) -> tuple[float, float]:
        """The demand within so much: as fast as with all of it; all of it where it lies below the points."""
        # A dictionary of its own: lru_cache would hash the whole profile at each question.
        known, offered = self._demands_within, (cpus, memory_gb)
        if offered not in known:
            best = self.rate(cpus, memory_gb)
            known[offered] = min(
                (
                    (its_cpus, its_gb)
                    for its_gb, row in zip(self.memory_gb, self.rates, strict=True)
                    for its_cpus, rate in zip(self.cpus, row, strict=True)
                    if rate >= best - 1e-9 and its_cpus <= cpus + 1e-9 and its_gb <= memory_gb + 1e-9
                ),
                default=offered,
            )
        return known[offered]

    @cached_property
    def _demands_within(self) -> dict[tuple[float, float], tuple[float, float]]:
        return {}


@dataclass(frozen=True, slots=True)
class SharedServer:
    """A server with the GPUs, CPUs and memory that it offers, those of other jobs not counted."""

    name: str
    gpus: int
    cpus: float
    memory_gb: float


@dataclass(frozen=True, slots=True)
class SharingJob:
    """A training on shared servers."""

    id: str
    gpus: int
    profile: Profile


@dataclass(slots=True)
class ServerShare:
    """The share of one server that a training has."""

    gpus: int
    cpus: float
    memory_gb: float


SharesOfTasks = dict[str, dict[str, ServerShare]]
"""Training → server → its share of the server."""


def rate_of(job: SharingJob, parts: Mapping[str, ServerShare]) -> float:
    """Rate relative to that at its share; the slowest part sets the pace."""
    return min(job.profile.rate(part.cpus / part.gpus, part.memory_gb / part.gpus) for part in parts.values())


class SharingBoard:
    """Servers while they are being shared out.

    Attributes:
        free: amounts of each server that nobody has.
        shares: CPUs and memory for each GPU of what each server offers; of one without GPUs, nothing.
    """

    def __init__(self, servers: Sequence[SharedServer]) -> None:
        self.free = {server.name: ServerShare(server.gpus, server.cpus, server.memory_gb) for server in servers}
        self.shares = {
            server.name: (server.cpus / server.gpus, server.memory_gb / server.gpus) if server.gpus else (0.0, 0.0)
            for server in servers
        }
        self.parts: SharesOfTasks = {}
        self.on: dict[str, set[str]] = {server.name: set() for server in servers}

    def fits(self, name: str, gpus: int, cpus: float, memory_gb: float) -> bool:
        """Whether so much is free."""
        free = self.free[name]
        return gpus <= free.gpus and cpus <= free.cpus + 1e-9 and memory_gb <= free.memory_gb + 1e-9

    def give(self, job: str, name: str, gpus: int, cpus: float, memory_gb: float) -> None:
        """Give a training more of a server."""
        free, mine = self.free[name], self.parts.setdefault(job, {})
        part = mine.setdefault(name, ServerShare(0, 0.0, 0.0))
        part.gpus, part.cpus, part.memory_gb = part.gpus + gpus, part.cpus + cpus, part.memory_gb + memory_gb
        free.gpus, free.cpus, free.memory_gb = free.gpus - gpus, free.cpus - cpus, free.memory_gb - memory_gb
        self.on[name].add(job)

    def take_all(self, job: str) -> None:
        """Take everything back from a training."""
        for name, part in self.parts.pop(job, {}).items():
            free = self.free[name]
            free.gpus, free.cpus = free.gpus + part.gpus, free.cpus + part.cpus
            free.memory_gb += part.memory_gb
            self.on[name].discard(job)

    def resize(self, job: str, name: str, cpus: float, memory_gb: float) -> None:
        """Let a training have so much of a server for each of its GPUs there."""
        part, free = self.parts[job][name], self.free[name]
        free.cpus += part.cpus - cpus * part.gpus
        free.memory_gb += part.memory_gb - memory_gb * part.gpus
        part.cpus, part.memory_gb = cpus * part.gpus, memory_gb * part.gpus


def tune(servers: Sequence[SharedServer], jobs: Sequence[SharingJob]) -> SharesOfTasks:
    """Servers, CPUs and memory for trainings whose GPUs are all there.

    Largest demand first. A training that finds no room with its demand is tried with its share, and then others
    are cut to theirs.

    Raises:
        ValueError: there are not enough GPUs.
    """
    board = SharingBoard(servers)
    if sum(job.gpus for job in jobs) > sum(part.gpus for part in board.free.values()):
        raise ValueError("the trainings want more GPUs than there are")
    by_id = {job.id: job for job in jobs}
    for job in sorted(jobs, key=_by_demand):
        if not place_one(board, job, within_share=False) and not place_one(board, job, within_share=True):
            _make_room(board, by_id, job)
    return board.parts


def _by_demand(job: SharingJob) -> tuple[float, float, float, str]:
    cpus, memory_gb = job.profile.demand
    return (-job.gpus, -cpus * job.gpus, -memory_gb * job.gpus, job.id)


def _within_share(board: SharingBoard, job: SharingJob, name: str) -> tuple[float, float]:
    return job.profile.demand_within(*board.shares[name])


def place_one(board: SharingBoard, job: SharingJob, within_share: bool) -> bool:
    """Place on the tightest server that has room for all GPUs, else GPU by GPU; whether there was room."""
    demand = job.profile.demand
    wanted = {
        name: _within_share(board, job, name) if within_share else demand
        for _, name in sorted((free.gpus, name) for name, free in board.free.items() if free.gpus)
    }
    for name, (cpus, memory_gb) in wanted.items():
        if board.fits(name, job.gpus, cpus * job.gpus, memory_gb * job.gpus):
            board.give(job.id, name, job.gpus, cpus * job.gpus, memory_gb * job.gpus)
            return True
    missing = job.gpus
    for name, (cpus, memory_gb) in wanted.items():
        while job.gpus > 1 and missing and board.fits(name, 1, cpus, memory_gb):
            board.give(job.id, name, 1, cpus, memory_gb)
            missing -= 1
    if missing:
        board.take_all(job.id)
    return not missing


def _make_room(board: SharingBoard, jobs: Mapping[str, SharingJob], job: SharingJob) -> None:
    """Bring others on servers with free GPUs within their shares, as far as it takes, and place the training."""
    missing = job.gpus
    for name in _with_free_gpus(board, job.gpus):
        gpus = min(missing, board.free[name].gpus)
        cpus, memory_gb = _within_share(board, job, name)
        # A peer that gives up CPUs may need memory for that, up to its share, which others have until they gave
        # theirs.
        for peer in _peers(board, name):
            if board.fits(name, gpus, cpus * gpus, memory_gb * gpus):
                break
            board.resize(peer, name, *_within_share(board, jobs[peer], name))
        board.give(job.id, name, gpus, cpus * gpus, memory_gb * gpus)
        missing -= gpus
        if not missing:
            return
    # Others within their shares leave at least the share of the free GPUs (module docstring).
    raise AssertionError("the GPUs were counted, so there is room")


def _with_free_gpus(board: SharingBoard, gpus: int) -> list[str]:
    """The tightest server with so many free, else those with most."""
    free = {name: part.gpus for name, part in board.free.items() if part.gpus}
    enough = [name for name in free if free[name] >= gpus]
    if enough:
        return [min(enough, key=lambda name: (free[name], name))]
    return sorted(free, key=lambda name: (-free[name], name))


def _peers(board: SharingBoard, name: str) -> Iterator[str]:
    """Trainings on the server: those on few servers first, then those with most CPUs and memory per GPU."""

    def order(job: str) -> tuple[int, float, float, str]:
        part = board.parts[job][name]
        return (len(board.parts[job]), -part.cpus / part.gpus, -part.memory_gb / part.gpus, job)

    return iter(sorted(board.on[name], key=order))


def split_optimally(
    server: SharedServer, jobs: Sequence[SharingJob], time_s: float, highs: Ask = HIGHS
) -> tuple[SharesOfTasks, str]:
    """CPUs and memory for trainings that have their GPUs of this server, and why it is not the optimum.

    Each gets a point of its profile, the sum of their rates is largest, and no rate is below that at the share.
    Nobody gets what does not make it faster.
    All servers taken as one give a bound on what any placement can reach. Where HiGHS finds nothing in time
    everyone gets its share.

    Raises:
        ValueError: the trainings have more GPUs than the server offers.
    """
    board = SharingBoard((server,))
    if sum(job.gpus for job in jobs) > server.gpus:
        raise ValueError("the trainings want more GPUs than there are")
    points = [
        (row, *point)
        for row, job in enumerate(jobs)
        for point in _worth_having(job.profile)
        if point[2] >= job.profile.rate(*board.shares[server.name]) - 1e-9
    ]
    programme = BinaryProgramme([rate for *_, rate in points], _rows(server, jobs, points))
    found, why = solve_in_guest(programme, time_s, highs)
    if found is None:
        for job in jobs:
            cpus, memory_gb = board.shares[server.name]
            board.give(job.id, server.name, job.gpus, cpus * job.gpus, memory_gb * job.gpus)
        return board.parts, why
    for (row, cpus, memory_gb, _), taken in zip(points, found, strict=True):
        if taken > 0.5:
            gpus = jobs[row].gpus
            board.give(jobs[row].id, server.name, gpus, cpus * gpus, memory_gb * gpus)
    return board.parts, why


def _worth_having(profile: Profile) -> Iterator[tuple[float, float, float]]:
    """CPUs, memory and rate of the points that are faster than every smaller point."""
    found: list[tuple[float, float, float]] = []
    for memory_gb, rates in zip(profile.memory_gb, profile.rates, strict=True):
        for cpus, rate in zip(profile.cpus, rates, strict=True):
            if all(other_cpus > cpus or other < rate for other_cpus, _, other in found):
                found.append((cpus, memory_gb, rate))
                yield cpus, memory_gb, rate


def _rows(
    server: SharedServer, jobs: Sequence[SharingJob], points: Sequence[tuple[int, float, float, float]]
) -> list[LinearRow]:
    """Σ CPUs and Σ memory fit on the server; each training gets one point."""
    cpus = {place: point[1] * jobs[point[0]].gpus for place, point in enumerate(points)}
    memory_gb = {place: point[2] * jobs[point[0]].gpus for place, point in enumerate(points)}
    one_each = [
        LinearRow({place: 1.0 for place, point in enumerate(points) if point[0] == row}, 1.0, 1.0)
        for row in range(len(jobs))
    ]
    return [LinearRow(cpus, server.cpus), LinearRow(memory_gb, server.memory_gb), *one_each]


_MOST_WAITING = 0.99
_MB_OF_A_GB = 1024
_OPT_TIME_S = 2.0
"""Seconds that OPT may take for one node; it takes milliseconds."""


Split = Callable[[SharedServer, Sequence[SharingJob]], SharesOfTasks]
"""Divides what a server offers beyond what is asked for among trainings that have their GPUs of it."""


class Synergy:
    """Synergy (OSDI 2022), of what a node has left when each task has what it asks for.

    Who waits for data gets more CPUs, as many as it would take to wait no more: by what was seen of it with
    several numbers of CPUs, or, with one, if reading takes time in proportion to them. Who has a cache of its own
    waits for the disk: it gets the memory for all of its data, or none, and no more CPUs, unless that was seen to
    be of no use. What is offered is the share of the new parts' GPUs of all GPUs that are free there, so that the
    others do not idle for want of CPUs and memory.
    """

    def __init__(self, split: Split) -> None:
        self._split = split

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        """The amounts of tasks that wait for data."""
        parts = [part for part in node.parts if part.asks.gpus]
        gpus = sum(part.asks.gpus for part in parts)
        if not gpus or all(part.data_wait_share < WAITS for part in parts):
            return {}
        of_gpus, threads = max(node.free_gpus, gpus), max(node.threads_per_core, 1)
        offered_gb = node.spare.memory_mb * gpus / of_gpus / _MB_OF_A_GB
        offered = SharedServer(node.name, gpus, node.spare.cpus * gpus // of_gpus, offered_gb)
        given = self._split(offered, [SharingJob(part.place, part.asks.gpus, _gain(part, node)) for part in parts])
        finished = {}
        for part in parts:
            more = given[part.place][node.name]
            # Slurm gives whole cores.
            cpus = int(more.cpus + 1e-9) // threads * threads
            memory_mb = part.cache_mb if more.memory_gb * _MB_OF_A_GB >= part.cache_mb - 1e-6 else 0
            if cpus or memory_mb:
                asks = part.asks
                finished[part.place] = replace(asks, cpus=asks.cpus + cpus, memory_mb=asks.memory_mb + memory_mb)
        return finished


def _gain(part: NewPart, node: SharedNode) -> Profile:
    """Gain from CPUs and memory beyond those asked for, per GPU."""
    asks, asked, gpus = part.asks, max(part.asks.cpus, 1), part.asks.gpus
    if part.data_wait_share < WAITS:
        return Profile((0.0,), (0.0,), ((1.0,),))
    seen = part.profile if part.profile.knows_cpus else WaitProfile((DataWait(part.data_wait_share, asked),))
    speed = 1 - min(part.data_wait_share, _MOST_WAITING)
    cached = _speed_cached(part, seen) / speed
    if cached >= 1 + WAITS:
        return Profile((0.0,), (0.0, part.cache_mb / _MB_OF_A_GB / gpus), ((1.0,), (cached,)))
    steps = range(0, node.spare.cpus + 1, max(node.threads_per_core, 1))
    rates = tuple((1 - seen.share_with(asked + more, asks.memory_mb)) / speed for more in steps)
    return Profile(tuple(more / gpus for more in steps), (0.0,), (rates,))


def _speed_cached(part: NewPart, seen: WaitProfile) -> float:
    """Speed with all data in memory: full, until it was seen with so much memory; 0: it has no cache."""
    memory_mb = part.asks.memory_mb + part.cache_mb
    if not part.cache_mb:
        return 0.0
    return 1 - seen.share_with(max(part.asks.cpus, 1), memory_mb) if seen.has_had(memory_mb) else 1.0


def _optimally(server: SharedServer, jobs: Sequence[SharingJob]) -> SharesOfTasks:
    """OPT; where HiGHS proves nothing in time, the better one of what it found and TUNE."""
    found, why = split_optimally(server, jobs, _OPT_TIME_S)
    if not why:
        return found
    return max(_tuned(server, jobs), found, key=lambda parts: sum(rate_of(job, parts[job.id]) for job in jobs))


def _tuned(server: SharedServer, jobs: Sequence[SharingJob]) -> SharesOfTasks:
    return tune((server,), jobs)


TUNE, OPT = Synergy(_tuned), Synergy(_optimally)
