"""Synergy's mechanisms: TUNE, which is greedy, and OPT, which is exact for one server.

TUNE: each training gets what it can use, and what it has beyond its share goes first where GPUs wait. No training
is slower than with the proportional share of what its server offers, and no GPU is left idle for want of CPUs or
memory: while no training on a server has more than its share, what is free of it is at least the share of its free
GPUs.

OPT: the split of one server's CPUs and memory that makes its trainings fastest together, by HiGHS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from freetrain.policies.binary_programme import HIGHS, BinaryProgramme, LinearRow, ProgrammeGuest
from freetrain.policies.synergy.shares import Board, Parts, Profile, SharedServer, SharingJob


def tune(servers: Sequence[SharedServer], jobs: Sequence[SharingJob]) -> Parts:
    """Servers, CPUs and memory for trainings whose GPUs are all there.

    Largest demand first. A training that finds no room with its demand is tried with its share, and then others
    are cut to theirs.

    Raises:
        ValueError: there are not enough GPUs.
    """
    board = Board(servers)
    if sum(job.gpus for job in jobs) > sum(part.gpus for part in board.free.values()):
        raise ValueError("the trainings want more GPUs than there are")
    by_id = {job.id: job for job in jobs}
    for job in sorted(jobs, key=_by_demand):
        if not place_one(board, job, within_share=False) and not place_one(board, job, within_share=True):
            _make_room(board, by_id, job)
    return board.parts


def place_greedily(servers: Sequence[SharedServer], jobs: Sequence[SharingJob]) -> Parts:
    """The baseline of TUNE: each gets its whole demand or waits, and GPUs idle for want of CPUs or memory."""
    board = Board(servers)
    free = sum(part.gpus for part in board.free.values())
    for job in jobs:
        if free and place_one(board, job, within_share=False):
            free -= job.gpus
    return board.parts


def _by_demand(job: SharingJob) -> tuple[float, float, float, str]:
    cpus, memory_gb = job.profile.demand
    return (-job.gpus, -cpus * job.gpus, -memory_gb * job.gpus, job.id)


def _within_share(board: Board, job: SharingJob, name: str) -> tuple[float, float]:
    """The least CPUs and memory for each of its GPUs that are as fast as its share of this server."""
    return job.profile.demand_within(*board.shares[name])


def place_one(board: Board, job: SharingJob, within_share: bool) -> bool:
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


def _make_room(board: Board, jobs: Mapping[str, SharingJob], job: SharingJob) -> None:
    """Bring others on the servers with free GPUs within their shares, as far as it takes, and place the training.

    Who gives up CPUs may need memory for that, up to its share: others have that until they are within theirs.
    """
    missing = job.gpus
    for name in _with_free_gpus(board, job.gpus):
        gpus = min(missing, board.free[name].gpus)
        cpus, memory_gb = _within_share(board, job, name)
        for peer in _peers(board, name):
            if board.fits(name, gpus, cpus * gpus, memory_gb * gpus):
                break
            board.resize(peer, name, *_within_share(board, jobs[peer], name))
        board.give(job.id, name, gpus, cpus * gpus, memory_gb * gpus)
        missing -= gpus
        if not missing:
            return
    raise AssertionError("the GPUs were counted, so there is room")


def _with_free_gpus(board: Board, gpus: int) -> list[str]:
    """The tightest server with so many free, else those with most."""
    free = {name: part.gpus for name, part in board.free.items() if part.gpus}
    enough = [name for name in free if free[name] >= gpus]
    if enough:
        return [min(enough, key=lambda name: (free[name], name))]
    return sorted(free, key=lambda name: (-free[name], name))


def _peers(board: Board, name: str) -> Iterator[str]:
    """Trainings on the server: those on few servers first, then those with most CPUs and memory per GPU."""

    def order(job: str) -> tuple[int, float, float, str]:
        part = board.parts[job][name]
        return (len(board.parts[job]), -part.cpus / part.gpus, -part.memory_gb / part.gpus, job)

    return iter(sorted(board.on[name], key=order))


def split_optimally(
    server: SharedServer, jobs: Sequence[SharingJob], time_s: float, highs: ProgrammeGuest = HIGHS
) -> tuple[Parts, str]:
    """CPUs and memory for trainings that have their GPUs of this server, and why it is not the optimum.

    Each gets a point of its profile, the sum of their rates is largest, and no rate is below that at the share.
    Nobody gets what does not make it faster.
    All servers taken as one give a bound on what any placement can reach. Where HiGHS finds nothing in time
    everyone gets its share.

    Raises:
        ValueError: the trainings have more GPUs than the server offers.
    """
    board = Board((server,))
    if sum(job.gpus for job in jobs) > server.gpus:
        raise ValueError("the trainings want more GPUs than there are")
    points = [
        (row, *point)
        for row, job in enumerate(jobs)
        for point in _worth_having(job.profile)
        if point[2] >= job.profile.rate(*board.shares[server.name]) - 1e-9
    ]
    programme = BinaryProgramme([rate for *_, rate in points], _rows(server, jobs, points))
    found, why = highs.solve(programme, time_s)
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
