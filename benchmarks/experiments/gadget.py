"""GADGET's experiment: utility of accumulated training on four leaves of eight servers, against simpler rules.

Time is cut into slots. In each it is decided which trainings get rings, how wide and where (:func:`fill_slot`), by
what adds most utility to what has been done so far. Filled greedily, as here, a slot has a part of its best that
is measured (docs/evidence/systems.md) and not proven. How fast a ring trains follows from the time of a step of
ring all-reduce.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.experiments.comparing import Experiment, MethodFigures
from freetrain.core.grouping import grouped
from freetrain.policies.aiming import AimedSizes
from freetrain.policies.equal_share import equal_sizes
from freetrain.policies.gadget.links import LinkBooks, PlacedRing, RingCosts, RingServer
from freetrain.policies.gadget.policy import LINEAR, LOG, Utility

_WITHIN_BYTES_PER_S = 100e9
"""Bandwidth between the workers of one server."""


@dataclass(frozen=True, slots=True)
class RingModel:
    """A training whose workers pass gradients around a ring.

    Attributes:
        gradient_bytes: bytes of gradients exchanged in each step.
        compute_s: of a step on one worker: forward and backward, for its share of the batch.
        reduce_bytes_per_s: speed at which a worker adds gradients up.
        per_server_s: seconds that each server of the ring adds to each step.
    """

    gradient_bytes: float
    compute_s: float
    samples_per_worker: float = 1.0
    reduce_bytes_per_s: float = 2e12
    per_server_s: float = 1e-3

    def step_s(self, workers: int, servers: int, bytes_per_s: float) -> float:
        """Seconds of a step: each worker sends 2·m·(w-1)/w bytes over its link, and adds up half of them."""
        if workers == 1:
            return self.compute_s
        around = (workers - 1) / workers * self.gradient_bytes
        exchange_s = 2 * around / bytes_per_s + around / self.reduce_bytes_per_s
        return self.compute_s + exchange_s + self.per_server_s * servers

    def rate(self, workers: int, servers: int, bytes_per_s: float) -> float:
        """Samples/s, where each worker keeps its share of the batch however many there are."""
        return workers * self.samples_per_worker / self.step_s(workers, servers, bytes_per_s)

    def wanted_bytes_per_s(self, workers: int) -> float:
        """Bandwidth with which sending takes as long as computing: what a ring reserves on its links."""
        return 2 * (workers - 1) / workers * self.gradient_bytes / self.compute_s


def contended(bytes_per_s: float, rings: int, degradation: float = 0.2) -> float:
    """Bandwidth of a ring on a link that several share without reservation: B / (k + a·(k-1))."""
    return bytes_per_s / (rings + degradation * (rings - 1))


@dataclass(frozen=True, slots=True)
class RingJob:
    """A training that wants a ring.

    Attributes:
        ring: ring that it has now; None: none.
        rescale_s: seconds lost where it gets another ring.
        arrives: the slot in which it comes.
        attained_s: the seconds of a worker that it has had.
    """

    id: str
    model: RingModel
    widest: int
    samples: float
    target_samples: float
    ring: PlacedRing | None = None
    rescale_s: float = 0.0
    weight: float = 1.0
    narrowest: int = 1
    arrives: int = 0
    attained_s: float = 0.0

    @property
    def fixed_width(self) -> int:
        """Width of the job's ring where rings do not change, in workers."""
        return self.widest // 2

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths that are considered: powers of two, the narrowest and the widest."""
        powers = (1 << power for power in range(self.widest.bit_length()))
        return tuple(sorted({self.narrowest, self.widest, *(width for width in powers if width > self.narrowest)}))


def rate_of(job: RingJob, ring: PlacedRing) -> float:
    """Samples/s in a ring that has found its servers."""
    bytes_per_s = _WITHIN_BYTES_PER_S if ring.servers == 1 else ring.bytes_per_s
    return job.model.rate(ring.width, ring.servers, bytes_per_s)


def samples_in_slot(job: RingJob, ring: PlacedRing, slot_s: float) -> float:
    """Samples of a slot; other workers than before cost a rescale."""
    lost_s = 0.0 if job.ring is None or ring.workers == job.ring.workers else min(job.rescale_s, slot_s)
    return rate_of(job, ring) * (slot_s - lost_s)


def fill_slot(
    books: LinkBooks, jobs: Sequence[RingJob], slot_s: float, utility: Utility
) -> Mapping[str, PlacedRing]:
    """Rings for one slot, by id, reserved in the books, which are empty; trainings without one are left out.

    1. The upgrade that gains most per cost comes first: from no ring to one, or to a wider one. A rule that only
       ever starts rings would leave places idle, as narrow rings gain most per worker.
    2. A single ring that is worth more than all of these together is used instead.
    """
    slot = _Slot(books, jobs, slot_s, utility)
    single = slot.best_single()
    slot.upgrade()
    if single is not None and single[0] > slot.gained:
        slot.take_only(*single[1:])
    return {job.id: ring for job, ring in zip(jobs, slot.rings, strict=True) if ring is not None}


class _Slot:
    def __init__(self, books: LinkBooks, jobs: Sequence[RingJob], slot_s: float, utility: Utility) -> None:
        self._books, self._jobs, self._slot_s, self._utility = books, jobs, slot_s, utility
        self._costs = RingCosts(books)
        self._most_places = max(books.free.values(), default=1)
        self._impossible: list[set[int]] = [set() for _ in jobs]
        self.rings: list[PlacedRing | None] = [None] * len(jobs)

    @property
    def gained(self) -> float:
        return sum(self._gain(row, ring) for row, ring in enumerate(self.rings))

    def best_single(self) -> tuple[float, int, PlacedRing] | None:
        found = [
            (self._gain(row, ring), row, ring)
            for row, job in enumerate(self._jobs)
            if (ring := self._embed(row, job.widest)) is not None
        ]
        return max(found, key=lambda entry: entry[0], default=None)

    def take_only(self, row: int, ring: PlacedRing) -> None:
        for other in self.rings:
            if other is not None:
                self._books.release(other)
        self.rings = [None] * len(self._jobs)
        self._reserve(row, ring)

    def upgrade(self) -> None:
        """Upgrade while something is gained; each is judged by the servers that it would really get."""
        waiting = [entry for row in range(len(self._jobs)) if (entry := self._hoped_for(row)) is not None]
        heapq.heapify(waiting)
        while waiting:
            _, row, width, is_found = heapq.heappop(waiting)
            before = self.rings[row]
            if before is not None:
                self._books.release(before)
            ring = self._embed(row, width)
            ratio = 0.0 if ring is None else self._ratio(row, before, ring)
            # Lazy greedy: a hope bounds the ratio from above. An upgrade is made only if none that is hoped for
            # can beat it.
            if ring is not None and ratio > 0 and not is_found and waiting and ratio < -waiting[0][0]:
                heapq.heappush(waiting, (-ratio, row, width, True))
                self._reserve(row, before)
                continue
            if ring is None or ratio <= 0:
                self._impossible[row].add(width)
            self._reserve(row, before if ring is None or ratio <= 0 else ring)
            if (entry := self._hoped_for(row)) is not None:
                heapq.heappush(waiting, entry)

    def _hoped_for(self, row: int) -> tuple[float, int, int, bool] | None:
        """The upgrade with the best ratio on as few servers as there can be: (-ratio, row, width, False)."""
        before = self.rings[row]
        width_now = 0 if before is None else before.width
        best: tuple[float, int, int, bool] | None = None
        for width in self._jobs[row].widths:
            if width > width_now and width not in self._impossible[row]:
                ratio = self._ratio(row, before, self._hope(row, width))
                if ratio > 0 and (best is None or -ratio < best[0]):
                    best = (-ratio, row, width, False)
        return best

    def _hope(self, row: int, width: int) -> PlacedRing:
        servers = -(-width // self._most_places)
        shares = tuple((str(number), self._most_places) for number in range(servers - 1))
        rest = width - self._most_places * (servers - 1)
        return PlacedRing((*shares, ("", rest)), 1, self._wanted(row, width) if servers > 1 else 0.0)

    def _wanted(self, row: int, width: int) -> float:
        return min(self._jobs[row].model.wanted_bytes_per_s(width), self._books.link_bytes_per_s)

    def _embed(self, row: int, width: int) -> PlacedRing | None:
        # Where its servers stay the same nothing is lost to a rescale.
        now = self._jobs[row].ring
        if now is not None and now.width == width and self._books.has_room(now):
            return now
        return embed(self._books, width, self._wanted(row, width))

    def _reserve(self, row: int, ring: PlacedRing | None) -> None:
        self.rings[row] = ring
        if ring is not None:
            self._books.reserve(ring)

    def _ratio(self, row: int, before: PlacedRing | None, ring: PlacedRing) -> float:
        gain = self._gain(row, ring) - self._gain(row, before)
        cost = self._costs.of(ring) - self._costs.of(before)
        return gain / cost if cost > 0 else (float("inf") if gain > 0 else 0.0)

    def _gain(self, row: int, ring: PlacedRing | None) -> float:
        if ring is None:
            return 0.0
        job, utility = self._jobs[row], self._utility
        after = job.samples + samples_in_slot(job, ring, self._slot_s)
        before = utility.of(job.samples, job.target_samples, job.weight)
        return utility.of(after, job.target_samples, job.weight) - before


_SLOTS, _SLOT_S = 60, 300.0
_SERVERS = tuple(RingServer(f"{leaf}{number}", 4, leaf) for leaf in "abcd" for number in range(8))
_LINK_BYTES_PER_S, _UPLINK_BYTES_PER_S = 3e9, 12e9
_RESCALE_S = 10.0
_UTILITIES = {"linear": LINEAR, "log": LOG}

_Fill = Callable[[Sequence[RingJob]], Mapping[str, PlacedRing]]
"""Trainings that wait or run → their rings in a slot."""


def _arrivals(draw: random.Random, count: int) -> list[RingJob]:
    arrivals = []
    for row in range(count):
        model = RingModel(draw.choice((50e6, 100e6, 250e6, 500e6, 1300e6)), draw.uniform(0.08, 0.4))
        widest = draw.choice((4, 8, 16, 32))
        alone = model.rate(widest // 2, -(-widest // 8), _LINK_BYTES_PER_S)
        target = alone * draw.uniform(10, 60) * _SLOT_S
        slot = draw.randrange(int(0.7 * _SLOTS))
        arrivals.append(RingJob(f"j{row}", model, widest, 0.0, target, rescale_s=_RESCALE_S, arrives=slot))
    return arrivals


def _by_slots(arrivals: Sequence[RingJob], fill: _Fill) -> list[RingJob]:
    """The trainings in the end; slot after slot the rings of those that are there are chosen again."""
    queue = list(arrivals)
    for slot in range(_SLOTS):
        here = [row for row, job in enumerate(queue) if job.arrives <= slot and job.samples < job.target_samples]
        rings = fill([queue[row] for row in here])
        for row in here:
            job, ring = queue[row], rings.get(queue[row].id)
            done = samples_in_slot(job, ring, _SLOT_S) if ring else 0.0
            had_s = job.attained_s + (ring.width * _SLOT_S if ring else 0.0)
            queue[row] = replace(job, ring=ring, samples=job.samples + done, attained_s=had_s)
    return queue


def _books() -> LinkBooks:
    return LinkBooks(_SERVERS, _LINK_BYTES_PER_S, _UPLINK_BYTES_PER_S)


def _gadget(utility: Utility, jobs: Sequence[RingJob]) -> Mapping[str, PlacedRing]:
    return fill_slot(_books(), jobs, _SLOT_S, utility)


def _equal_rings(jobs: Sequence[RingJob]) -> Mapping[str, PlacedRing]:
    """Rings of equal width, or half or twice that: powers of two, which fill servers and seldom change."""
    books = _books()
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


def embed(books: LinkBooks, width: int, bytes_per_s: float) -> PlacedRing | None:
    """Servers for a ring, nothing reserved yet: one server before one leaf before few leaves; None: no room.

    Within each, the tightest that has room, and few servers.
    """
    if fitting := [name for name, free in books.free.items() if free >= width]:
        name = min(fitting, key=lambda name: (books.free[name], name))
        return PlacedRing(((name, width),), 1, 0.0)
    roomy = (name for name, free in books.free.items() if free and books.link[name] >= bytes_per_s)
    by_leaf = grouped((books.servers[name].leaf, name) for name in roomy)
    room = {leaf: sum(books.free[name] for name in names) for leaf, names in by_leaf.items()}
    if fitting := [leaf for leaf in room if room[leaf] >= width]:
        leaf = min(fitting, key=lambda leaf: (room[leaf], leaf))
        return PlacedRing(_fill(books, by_leaf[leaf], width), 1, bytes_per_s)
    chosen: list[tuple[str, int]] = []
    leaves, missing = 0, width
    # The roomiest first, for few leaves; by name in the end, so that equal leaves give the same ring each
    # time.
    for leaf in sorted(room, key=lambda leaf: (-room[leaf], leaf)):
        if missing and books.uplink[leaf] >= bytes_per_s:
            chosen += _fill(books, by_leaf[leaf], missing)
            missing -= min(missing, room[leaf])
            leaves += 1
    return None if missing else PlacedRing(tuple(chosen), leaves, bytes_per_s)


def _fill(books: LinkBooks, names: Iterable[str], width: int) -> tuple[tuple[str, int], ...]:
    taken = []
    for name in sorted(names, key=lambda name: (-books.free[name], name)):
        workers = min(width, books.free[name])
        if workers:
            taken.append((name, workers))
        width -= workers
    return tuple(taken)


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
            if (ring := embed(books, narrower, wanted)) is not None:
                rings[job.id] = ring
                books.reserve(ring)
                break
    return rings


def _remaining_s(job: RingJob) -> float:
    rate = job.model.rate(job.fixed_width, -(-job.fixed_width // 4), _LINK_BYTES_PER_S)
    return (job.target_samples - job.samples) / rate


def _by_rule(key: Callable[[RingJob], float], jobs: Sequence[RingJob]) -> Mapping[str, PlacedRing]:
    """Rings of fixed width on the first places that are free, bandwidth shared; passed over with too few."""
    free = {server.name: server.places for server in _SERVERS}
    rings = {}
    for job in sorted(jobs, key=key):
        missing, workers = job.fixed_width, list[tuple[str, int]]()
        if sum(free.values()) < missing:
            continue
        for name in free:
            if taken := min(missing, free[name]):
                workers.append((name, taken))
                free[name] -= taken
                missing -= taken
        rings[job.id] = PlacedRing(tuple(workers), 1, 0.0)
    split = Counter(name for ring in rings.values() if ring.servers > 1 for name, _ in ring.workers)
    for id_, ring in rings.items():
        if ring.servers > 1:
            sharing = max(split[name] for name, _ in ring.workers)
            rings[id_] = replace(ring, bytes_per_s=contended(_LINK_BYTES_PER_S, sharing))
    return rings


_OTHERS: Mapping[str, _Fill] = {
    "equal share": _equal_rings,
    "FIFO": partial(_by_rule, lambda job: job.arrives),
    "LAS": partial(_by_rule, lambda job: job.attained_s),
    "DRF": partial(_by_rule, lambda job: job.fixed_width),
    "Tetris": partial(_by_rule, lambda job: job.fixed_width * _remaining_s(job)),
}
"""Other ways to give rings; by a rule trainings with the least of its key are served first."""


def _run(seed: int) -> Iterator[MethodFigures]:
    """40, 80 and 120 trainings in 60 slots of five minutes; all have until the end to be done."""
    for count in (40, 80, 120):
        arrivals = _arrivals(random.Random(seed), count)
        others = {other: _by_slots(arrivals, fill) for other, fill in _OTHERS.items()}
        for name, utility in _UTILITIES.items():
            trained = {"GADGET": _by_slots(arrivals, partial(_gadget, utility)), **others}
            setting = f"{name}, {count} trainings"
            worth = {
                method: sum(utility.of(job.samples, job.target_samples, job.weight) for job in jobs)
                for method, jobs in trained.items()
            }
            yield MethodFigures(setting, "utility", worth)
            completed = {
                method: float(sum(job.samples >= job.target_samples for job in trained[method]))
                for method in ("GADGET", "equal share")
            }
            yield MethodFigures(setting, "completed", completed)


EXPERIMENT = Experiment(
    "GADGET: utility of all trainings, and how many are completed",
    _run,
    tuple(("GADGET", other) for other in _OTHERS),
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
