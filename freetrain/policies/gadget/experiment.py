"""GADGET's experiment: utility of accumulated training on four leaves of eight servers, against simpler rules."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from freetrain.policies.experiment import Table
from freetrain.policies.gadget.ring_model import RingModel, contended
from freetrain.policies.gadget.servers import Books, Ring, Server
from freetrain.policies.gadget.slot import RingJob, fill_slot, samples_in_slot
from freetrain.policies.gadget.utility import LINEAR, LOG, Utility

_SLOTS, _SLOT_S = 60, 300.0
_SERVERS = tuple(Server(f"{leaf}{number}", 4, leaf) for leaf in "abcd" for number in range(8))
_LINK_BYTES_PER_S, _UPLINK_BYTES_PER_S = 3e9, 12e9
_RESCALE_S = 10.0
_UTILITIES = {"linear": LINEAR, "log": LOG}


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A training, and when it comes.

    Attributes:
        slot: first slot in which it may have a ring.
        job: as it comes.
    """

    slot: int
    job: RingJob


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A training as a simple rule sees it.

    Attributes:
        slot: when it came.
        job: as it is now.
        attained_s: seconds of a worker that it has had.
    """

    slot: int
    job: RingJob
    attained_s: float

    @property
    def remaining_s(self) -> float:
        """How long it needs in its ring."""
        job = self.job
        rate = job.model.rate(_fixed(job), -(-_fixed(job) // 4), _LINK_BYTES_PER_S)
        return (job.target_samples - job.samples) / rate


Key = Callable[[_Waiting], float]

_RULES: Mapping[str, Key] = {
    "FIFO": lambda one: one.slot,
    "LAS": lambda one: one.attained_s,
    "DRF": lambda one: _fixed(one.job),
    "Tetris": lambda one: _fixed(one.job) * one.remaining_s,
}
"""Rule → whom it serves first: those of the least."""


def run(seeds: int = 3) -> Table:
    """40, 80 and 120 trainings in 60 slots of five minutes; all have until the end to be done."""
    rows = []
    for name, utility in _UTILITIES.items():
        for count in (40, 80, 120):
            results = [_compare(seed, count, utility) for seed in range(seeds)]
            means = {rule: sum(one[rule][0] for one in results) / seeds for rule in results[0]}
            done = {rule: sum(one[rule][1] for one in results) / seeds for rule in results[0]}
            best = max(_RULES, key=lambda rule: means[rule])
            factor = means["GADGET"] / means[best]
            cells = (f"{means[rule]:.1f} ({done[rule]:.0f})" for rule in ("GADGET", *_RULES))
            rows.append((name, count, *cells, f"{factor:.2f} x {best}"))
    return Table(
        f"Utility of all trainings, and in brackets how many were completed; means of {seeds} seeds",
        ("utility", "trainings", "GADGET", *_RULES, "GADGET against the best"),
        tuple(rows),
        (
            f"{len(_SERVERS)} servers of 4 GPUs on 4 leaves, links of 3 GB/s, uplinks of 12 GB/s; a change of "
            f"ring costs {_RESCALE_S:g} s.",
            "The rules give each training a ring of half its largest width, first-fit, bandwidth shared; who "
            "finds no room is passed over.",
        ),
    )


def _compare(seed: int, count: int, utility: Utility) -> dict[str, tuple[float, int]]:
    """Rule → utility of all, and how many were completed."""
    arrivals = _arrivals(random.Random(seed), count)
    found = {"GADGET": _gadget(arrivals, utility)}
    found |= {rule: _by_rule(arrivals, key) for rule, key in _RULES.items()}
    return {rule: _result(jobs, utility) for rule, jobs in found.items()}


def _result(jobs: Sequence[RingJob], utility: Utility) -> tuple[float, int]:
    worth = sum(utility.of(job.samples, job.target_samples, job.weight) for job in jobs)
    return worth, sum(job.samples >= job.target_samples for job in jobs)


def _arrivals(draw: random.Random, count: int) -> list[_Arrival]:
    arrivals = []
    for row in range(count):
        model = RingModel(draw.choice((50e6, 100e6, 250e6, 500e6, 1300e6)), draw.uniform(0.08, 0.4))
        widest = draw.choice((4, 8, 16, 32))
        alone = model.rate(widest // 2, -(-widest // 8), _LINK_BYTES_PER_S)
        target = alone * draw.uniform(10, 60) * _SLOT_S
        slot = draw.randrange(int(0.7 * _SLOTS))
        arrivals.append(_Arrival(slot, RingJob(f"j{row}", model, widest, 0.0, target, None, _RESCALE_S)))
    return arrivals


def _gadget(arrivals: Sequence[_Arrival], utility: Utility) -> list[RingJob]:
    jobs = [one.job for one in arrivals]
    for slot in range(_SLOTS):
        here = [
            row
            for row, one in enumerate(arrivals)
            if one.slot <= slot and jobs[row].samples < jobs[row].target_samples
        ]
        books = Books(_SERVERS, _LINK_BYTES_PER_S, _UPLINK_BYTES_PER_S)
        rings = fill_slot(books, [jobs[row] for row in here], _SLOT_S, utility)
        for row in here:
            ring = rings.get(jobs[row].id)
            done = samples_in_slot(jobs[row], ring, _SLOT_S) if ring else 0.0
            jobs[row] = replace(jobs[row], ring=ring, samples=jobs[row].samples + done)
    return jobs


def _by_rule(arrivals: Sequence[_Arrival], key: Key) -> list[RingJob]:
    """Rings of fixed width in the rule's order, decided anew in each slot."""
    jobs = [one.job for one in arrivals]
    attained_s = [0.0] * len(jobs)
    for slot in range(_SLOTS):
        waiting = {
            row: _Waiting(one.slot, jobs[row], attained_s[row])
            for row, one in enumerate(arrivals)
            if one.slot <= slot and jobs[row].samples < jobs[row].target_samples
        }
        rings = _first_fit(
            {row: _fixed(jobs[row]) for row in sorted(waiting, key=lambda row: (key(waiting[row]), row))}
        )
        split = Counter(name for ring in rings.values() if ring.servers > 1 for name, _ in ring.workers)
        for row in waiting:
            ring = rings.get(row)
            if ring is None:
                jobs[row] = replace(jobs[row], ring=None)
                continue
            sharing = max((split[name] for name, _ in ring.workers), default=0) if ring.servers > 1 else 0
            speed = replace(ring, bytes_per_s=contended(_LINK_BYTES_PER_S, sharing) if sharing else 0.0)
            stays = jobs[row].ring is not None and jobs[row].ring.workers == ring.workers  # type: ignore[union-attr]
            before = replace(jobs[row], ring=speed) if stays else jobs[row]
            done = samples_in_slot(before, speed, _SLOT_S)
            jobs[row] = replace(jobs[row], ring=ring, samples=jobs[row].samples + done)
            attained_s[row] += ring.width * _SLOT_S
    return jobs


def _fixed(job: RingJob) -> int:
    return job.widest // 2


def _first_fit(widths: Mapping[int, int]) -> dict[int, Ring]:
    """Rings in this order on the first places that are free; who finds too few is passed over."""
    free = {server.name: server.places for server in _SERVERS}
    rings = {}
    for row, width in widths.items():
        if sum(free.values()) < width:
            continue
        workers, missing = [], width
        for name in free:
            if missing and free[name]:
                taken = min(missing, free[name])
                workers.append((name, taken))
                free[name] -= taken
                missing -= taken
        rings[row] = Ring(tuple(workers), 1, 0.0)
    return rings
