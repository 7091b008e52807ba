"""One slot of GADGET: which trainings get rings, how wide and where, for the time until the next slot.

Each slot is filled by itself with what adds most utility to what has been done so far. Filled greedily, as here, a
slot has a part of its best that is measured (docs/evidence/systems.md) and not proven. How fast a ring trains
follows from the time of a step of ring all-reduce.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from freetrain.policies.gadget.links import LinkBooks, PlacedRing, RingCosts
from freetrain.policies.gadget.policy import Utility

_WITHIN_BYTES_PER_S = 100e9
"""Bandwidth between the workers of one server."""


@dataclass(frozen=True, slots=True)
class RingModel:
    """A training whose workers pass gradients around a ring.

    Attributes:
        gradient_bytes: exchanged in each step.
        compute_s: of a step on one worker: forward and backward, for its share of the batch.
        samples_per_worker: that share.
        reduce_bytes_per_s: how fast a worker adds gradients up.
        per_server_s: added to each step by each server of the ring.
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
        id: its name.
        model: how fast it is.
        widest: most workers that it can use.
        samples: done so far.
        target_samples: after which it is complete.
        ring: that it has now; None: none.
        rescale_s: lost where it gets another one.
        weight: how much it counts.
        narrowest: least workers that it can use.
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
    """Rings for one slot, by id; trainings without one are left out.

    1. The upgrade that gains most per cost comes first: from no ring to one, or to a wider one. A rule that only
       ever starts rings would leave places idle, as narrow rings gain most per worker.
    2. A single ring that is worth more than all of these together is used instead.

    Args:
        books: with nothing reserved; what the rings take is reserved in them.
        jobs: trainings that want a ring.
        slot_s: how long the slot is.
        utility: what is maximised.
    """
    slot = _Slot(books, jobs, slot_s, utility)
    single = slot.best_single()
    slot.upgrade()
    if single is not None and single[0] > slot.gained:
        slot.take_only(*single[1:])
    return {job.id: ring for job, ring in zip(jobs, slot.rings, strict=True) if ring is not None}


class _Slot:
    """A slot being filled."""

    def __init__(self, books: LinkBooks, jobs: Sequence[RingJob], slot_s: float, utility: Utility) -> None:
        self._books, self._jobs, self._slot_s, self._utility = books, jobs, slot_s, utility
        self._costs = RingCosts(books)
        self._most_places = max(books.free.values(), default=1)
        self._impossible: list[set[int]] = [set() for _ in jobs]
        self.rings: list[PlacedRing | None] = [None] * len(jobs)

    @property
    def gained(self) -> float:
        """Utility of all rings together."""
        return sum(self._gain(row, ring) for row, ring in enumerate(self.rings))

    def best_single(self) -> tuple[float, int, PlacedRing] | None:
        """The ring that is worth most by itself, and whose it is."""
        found = [
            (self._gain(row, ring), row, ring)
            for row, job in enumerate(self._jobs)
            if (ring := self._embed(row, job.widest)) is not None
        ]
        return max(found, key=lambda entry: entry[0], default=None)

    def take_only(self, row: int, ring: PlacedRing) -> None:
        """Give one training this ring, and the others none."""
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
        """The ring that it has, if that has room: there nothing is lost; else a new one."""
        now = self._jobs[row].ring
        if now is not None and now.width == width and self._books.has_room(now):
            return now
        return self._books.embed(width, self._wanted(row, width))

    def _reserve(self, row: int, ring: PlacedRing | None) -> None:
        self.rings[row] = ring
        if ring is not None:
            self._books.reserve(ring)

    def _ratio(self, row: int, before: PlacedRing | None, ring: PlacedRing) -> float:
        """Utility gained per cost; inf where it costs nothing."""
        gain = self._gain(row, ring) - self._gain(row, before)
        cost = self._cost(ring) - self._cost(before)
        return gain / cost if cost > 0 else (float("inf") if gain > 0 else 0.0)

    def _gain(self, row: int, ring: PlacedRing | None) -> float:
        if ring is None:
            return 0.0
        job, utility = self._jobs[row], self._utility
        after = job.samples + samples_in_slot(job, ring, self._slot_s)
        before = utility.of(job.samples, job.target_samples, job.weight)
        return utility.of(after, job.target_samples, job.weight) - before

    def _cost(self, ring: PlacedRing | None) -> float:
        return 0.0 if ring is None else self._costs.of(ring)
