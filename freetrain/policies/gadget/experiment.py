"""GADGET's experiment: utility of accumulated training on four leaves of eight servers, against simpler rules."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from freetrain.policies.aiming import AimedSizes
from freetrain.policies.equal_share import equal_sizes
from freetrain.policies.experiment import Experiment, MethodComparison
from freetrain.policies.gadget.links import LinkBooks, PlacedRing, RingServer
from freetrain.policies.gadget.policy import LINEAR, LOG, Utility
from freetrain.policies.gadget.slot import RingJob, RingModel, contended, fill_slot, samples_in_slot

_SLOTS, _SLOT_S = 60, 300.0
_SERVERS = tuple(RingServer(f"{leaf}{number}", 4, leaf) for leaf in "abcd" for number in range(8))
_LINK_BYTES_PER_S, _UPLINK_BYTES_PER_S = 3e9, 12e9
_RESCALE_S = 10.0
_UTILITIES = {"linear": LINEAR, "log": LOG}


@dataclass(frozen=True, slots=True)
class _QueuedJob:
    """A training that has come, or will.

    Attributes:
        slot: first slot in which it may have a ring.
        job: as it is now.
        attained_s: seconds of a worker that it has had.
    """

    slot: int
    job: RingJob
    attained_s: float = 0.0

    @property
    def remaining_s(self) -> float:
        """Seconds that it needs in its ring until it is complete."""
        job = self.job
        rate = job.model.rate(_fixed(job), -(-_fixed(job) // 4), _LINK_BYTES_PER_S)
        return (job.target_samples - job.samples) / rate


_Key = Callable[[_QueuedJob], float]
_Fill = Callable[[Sequence[_QueuedJob]], Mapping[str, PlacedRing]]
"""Trainings that wait or run → their rings in a slot."""

_RULES: Mapping[str, _Key] = {
    "FIFO": lambda waiting: waiting.slot,
    "LAS": lambda waiting: waiting.attained_s,
    "DRF": lambda waiting: _fixed(waiting.job),
    "Tetris": lambda waiting: _fixed(waiting.job) * waiting.remaining_s,
}
"""Rule → its key: trainings with the least are served first."""


def _compare(seed: int) -> Iterator[MethodComparison]:
    """40, 80 and 120 trainings in 60 slots of five minutes; all have until the end to be done."""
    for count in (40, 80, 120):
        arrivals = _arrivals(random.Random(seed), count)
        ways: dict[str, _Fill] = {
            "equal share": _equal_rings,
            **{rule: partial(_by_rule, key) for rule, key in _RULES.items()},
        }
        others = {way: _by_slots(arrivals, fill) for way, fill in ways.items()}
        for name, utility in _UTILITIES.items():
            gadget = _by_slots(arrivals, partial(_gadget, utility))
            setting, worth = f"{name}, {count} trainings", partial(_worth, utility)
            for other, jobs in others.items():
                yield MethodComparison(setting, "utility", "GADGET", other, worth(gadget), worth(jobs))
            completed = _completed(gadget), _completed(others["equal share"])
            yield MethodComparison(setting, "completed", "GADGET", "equal share", *completed)


EXPERIMENT = Experiment(
    "GADGET: utility of all trainings, and how many are completed",
    _compare,
    (
        f"{len(_SERVERS)} servers of 4 GPUs on 4 leaves, links of 3 GB/s, uplinks of 12 GB/s; a change of "
        f"ring costs {_RESCALE_S:g} s.",
        "equal share: elastic rings of equal width, in powers of two, embedded with bandwidth reserved as "
        "GADGET's are, and kept where they are while their width stays.",
        "FIFO, LAS, DRF and Tetris: fixed rings, of half of each training's largest, first-fit, bandwidth shared; "
        "who finds no room is passed over.",
        "GADGET's paper reports more utility than the state of the art; we know of no public figure.",
    ),
)


def _worth(utility: Utility, jobs: Sequence[RingJob]) -> float:
    return sum(utility.of(job.samples, job.target_samples, job.weight) for job in jobs)


def _completed(jobs: Sequence[RingJob]) -> float:
    return float(sum(job.samples >= job.target_samples for job in jobs))


def _arrivals(draw: random.Random, count: int) -> list[_QueuedJob]:
    arrivals = []
    for row in range(count):
        model = RingModel(draw.choice((50e6, 100e6, 250e6, 500e6, 1300e6)), draw.uniform(0.08, 0.4))
        widest = draw.choice((4, 8, 16, 32))
        alone = model.rate(widest // 2, -(-widest // 8), _LINK_BYTES_PER_S)
        target = alone * draw.uniform(10, 60) * _SLOT_S
        slot = draw.randrange(int(0.7 * _SLOTS))
        arrivals.append(_QueuedJob(slot, RingJob(f"j{row}", model, widest, 0.0, target, None, _RESCALE_S)))
    return arrivals


def _by_slots(arrivals: Sequence[_QueuedJob], fill: _Fill) -> list[RingJob]:
    """The trainings in the end; slot after slot the rings of those that are there are chosen again."""
    queue = list(arrivals)
    for slot in range(_SLOTS):
        here = [
            row
            for row, queued in enumerate(queue)
            if queued.slot <= slot and queued.job.samples < queued.job.target_samples
        ]
        rings = fill([queue[row] for row in here])
        for row in here:
            job, ring = queue[row].job, rings.get(queue[row].job.id)
            done = samples_in_slot(job, ring, _SLOT_S) if ring else 0.0
            had_s = queue[row].attained_s + (ring.width * _SLOT_S if ring else 0.0)
            queue[row] = _QueuedJob(queue[row].slot, replace(job, ring=ring, samples=job.samples + done), had_s)
    return [queued.job for queued in queue]


def _books() -> LinkBooks:
    return LinkBooks(_SERVERS, _LINK_BYTES_PER_S, _UPLINK_BYTES_PER_S)


def _gadget(utility: Utility, queue: Sequence[_QueuedJob]) -> Mapping[str, PlacedRing]:
    return fill_slot(_books(), [queued.job for queued in queue], _SLOT_S, utility)


def _equal_rings(queue: Sequence[_QueuedJob]) -> Mapping[str, PlacedRing]:
    """Rings of equal width, or half or twice that: powers of two, which fill servers and seldom change."""
    jobs, books = [queued.job for queued in queue], _books()
    most = np.array([job.widest for job in jobs], dtype=np.int64)
    places = sum(books.free.values())
    sizes = equal_sizes(AimedSizes(np.ones_like(most), most, np.zeros_like(most), 0.0), places).tolist()
    widths = [1 << (size.bit_length() - 1) if size else 0 for size in sizes]
    left = places - sum(widths)
    now = [job.ring.width if job.ring else 0 for job in jobs]
    for row in sorted(range(len(jobs)), key=lambda row: (widths[row], widths[row] >= now[row], row)):
        if 0 < widths[row] <= left and 2 * widths[row] <= jobs[row].widest:
            left -= widths[row]
            widths[row] *= 2
    return _embedded(books, jobs, widths)


def _embedded(books: LinkBooks, jobs: Sequence[RingJob], widths: Sequence[int]) -> Mapping[str, PlacedRing]:
    """Rings of these widths, or narrower where links are full: those that stay first, then wide ones."""
    rings: dict[str, PlacedRing] = {}
    for job, width in zip(jobs, widths, strict=True):
        if job.ring is not None and job.ring.width == width and books.has_room(job.ring):
            rings[job.id] = job.ring
            books.reserve(job.ring)
    others = (pair for pair in zip(jobs, widths, strict=True) if pair[0].id not in rings)
    for job, width in sorted(others, key=lambda pair: (-pair[1], pair[0].id)):
        for narrower in range(width, 0, -1):
            wanted = min(job.model.wanted_bytes_per_s(narrower), books.link_bytes_per_s)
            if (ring := books.embed(narrower, wanted)) is not None:
                rings[job.id] = ring
                books.reserve(ring)
                break
    return rings


def _fixed(job: RingJob) -> int:
    return job.widest // 2


def _by_rule(key: _Key, queue: Sequence[_QueuedJob]) -> Mapping[str, PlacedRing]:
    """Rings of fixed width on the first places that are free, bandwidth shared; passed over with too few."""
    free = {server.name: server.places for server in _SERVERS}
    rings = {}
    for queued in sorted(queue, key=key):
        missing, workers = _fixed(queued.job), list[tuple[str, int]]()
        if sum(free.values()) < missing:
            continue
        for name in free:
            if taken := min(missing, free[name]):
                workers.append((name, taken))
                free[name] -= taken
                missing -= taken
        rings[queued.job.id] = PlacedRing(tuple(workers), 1, 0.0)
    split = Counter(name for ring in rings.values() if ring.servers > 1 for name, _ in ring.workers)
    for id_, ring in rings.items():
        if ring.servers > 1:
            sharing = max(split[name] for name, _ in ring.workers)
            rings[id_] = replace(ring, bytes_per_s=contended(_LINK_BYTES_PER_S, sharing))
    return rings
