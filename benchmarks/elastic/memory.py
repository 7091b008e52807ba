"""Whether a worker that stays has more memory after each change of its world."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.elastic.job import Job
from benchmarks.elastic.scripts.footprint import FOOTPRINT_VARIABLE, LOOK_AT_STEP
from benchmarks.elastic.systems import FREETRAIN

PARAMETERS = 8_000_000
DEVICE_S = 0.01
_EVERY = 10
_SETTLE_STEPS = LOOK_AT_STEP + 2
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What the worker with rank 0 had after so many changes of its world.

    Attributes:
        changes: since there were two ranks.
        resident_bytes: in the computer's memory.
        needed_bytes: of these, without what its allocator kept although it was free.
        threads: that it had then; more of them are left of worlds that did not end.
    """

    changes: int
    resident_bytes: int
    needed_bytes: int
    threads: int


def measure_memory(changes: int, optimizer: str) -> Iterator[Memory]:
    """By turns a third rank comes, leaves, comes, is killed; one figure every ten changes."""
    system = replace(FREETRAIN, environment={**FREETRAIN.environment, FOOTPRINT_VARIABLE: "1"})
    job = Job(system, PARAMETERS, DEVICE_S, optimizer)
    try:
        job.start(2)
        _settle(job, 2)
        for change in range(1, changes + 1):
            if change % 2:
                job.start(1)
            else:
                _take_one(job, kill=change % 4 == 0)
            _settle(job, 3 if change % 2 else 2)
            if change % _EVERY == 0:
                yield Memory(change, **json.loads(job.footprints()[-1]))
    finally:
        job.end()


def _take_one(job: Job, *, kill: bool) -> None:
    node = job.newest()
    assert node is not None
    if kill:
        node.kill()
    else:
        node.ask_to_leave()


def _settle(job: Job, ranks: int) -> None:
    failure = job.await_settled(ranks, _SETTLE_STEPS, _TIMEOUT_S)
    if failure:
        raise RuntimeError(f"no {ranks} ranks: {failure}; {job.last_words()}")
