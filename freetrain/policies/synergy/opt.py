"""Synergy's OPT: the split of one server's CPUs and memory that makes its trainings fastest together, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from freetrain.policies.programme import HIGHS, Programme, ProgrammeGuest, Row
from freetrain.policies.synergy.sensitivity import Profile
from freetrain.policies.synergy.shares import Board, Parts, Server, SharingJob


def split_optimally(
    server: Server, jobs: Sequence[SharingJob], time_s: float, highs: ProgrammeGuest = HIGHS
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
        if point[2] >= job.profile.rate(*board.share(server.name)) - 1e-9
    ]
    programme = Programme([rate for *_, rate in points], _rows(server, jobs, points))
    found, why = highs.solve(programme, time_s)
    if found is None:
        for job in jobs:
            cpus, memory_gb = board.share(server.name)
            board.give(job.id, server.name, job.gpus, cpus * job.gpus, memory_gb * job.gpus)
        return board.parts, why
    for (row, cpus, memory_gb, _), taken in zip(points, found, strict=True):
        if taken > 0.5:
            gpus = jobs[row].gpus
            board.give(jobs[row].id, server.name, gpus, cpus * gpus, memory_gb * gpus)
    return board.parts, why


def _worth_having(profile: Profile) -> Iterator[tuple[float, float, float]]:
    """CPUs, memory and rate of those points at which it is faster than at every smaller one."""
    found: list[tuple[float, float, float]] = []
    for memory_gb, rates in zip(profile.memory_gb, profile.rates, strict=True):
        for cpus, rate in zip(profile.cpus, rates, strict=True):
            if all(other_cpus > cpus or other < rate for other_cpus, _, other in found):
                found.append((cpus, memory_gb, rate))
                yield cpus, memory_gb, rate


def _rows(
    server: Server, jobs: Sequence[SharingJob], points: Sequence[tuple[int, float, float, float]]
) -> list[Row]:
    """Σ CPUs and Σ memory fit on the server; each training gets one point."""
    cpus = {place: point[1] * jobs[point[0]].gpus for place, point in enumerate(points)}
    memory_gb = {place: point[2] * jobs[point[0]].gpus for place, point in enumerate(points)}
    one_each = [
        Row({place: 1.0 for place, point in enumerate(points) if point[0] == row}, 1.0, 1.0)
        for row in range(len(jobs))
    ]
    return [Row(cpus, server.cpus), Row(memory_gb, server.memory_gb), *one_each]
