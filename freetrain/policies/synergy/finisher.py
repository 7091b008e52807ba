"""Synergy as a finisher: new tasks whose trainings wait for data get more CPUs and memory of a shared node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import WAITS, DataWait, WaitProfile
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.policies.synergy.mechanisms import split_optimally, tune
from freetrain.policies.synergy.shares import Parts, Profile, SharedServer, SharingJob, rate_of

_MOST_WAITING = 0.99
_MB_OF_A_GB = 1024
_OPT_TIME_S = 2.0
"""For one node; it takes milliseconds."""


Split = Callable[[SharedServer, Sequence[SharingJob]], Parts]
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


def _optimally(server: SharedServer, jobs: Sequence[SharingJob]) -> Parts:
    """OPT; where HiGHS proves nothing in time, the better one of what it found and TUNE."""
    found, why = split_optimally(server, jobs, _OPT_TIME_S)
    if not why:
        return found
    return max(_tuned(server, jobs), found, key=lambda parts: sum(rate_of(job, parts[job.id]) for job in jobs))


def _tuned(server: SharedServer, jobs: Sequence[SharingJob]) -> Parts:
    return tune((server,), jobs)


TUNE, OPT = Synergy(_tuned), Synergy(_optimally)
