"""What a step costs that agrees with all ranks on whether the world changes, beside one that does not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.elastic.job import Job
from benchmarks.elastic.steps import step_time_s, steps_of_last_world
from benchmarks.elastic.systems import System

RANKS = (2, 4, 8)
DEVICE_S = 0.01
PARAMETERS = 250_000
_STEPS = 400
_SETTLE_STEPS = 50
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class StepTime:
    """The steps of one training whose world does not change.

    Attributes:
        system: that ran it.
        ranks: of its world.
        repeat: from 0.
        step_s: median time from one step's end to the next one's; None if it did not come to so many.
    """

    system: str
    ranks: int
    repeat: int
    step_s: float | None


def measure_membership(systems: Sequence[System], repeats: int) -> Iterator[StepTime]:
    """One training after the other, the systems by turns, so that what changes on the machine changes for all."""
    for ranks in RANKS:
        for repeat in range(repeats):
            for system in systems:
                yield StepTime(system.name, ranks, repeat, _step_time_s(system, ranks))


def _step_time_s(system: System, ranks: int) -> float | None:
    job = Job(system, PARAMETERS, DEVICE_S)
    try:
        job.start(ranks)
        if job.await_settled(ranks, _SETTLE_STEPS, _TIMEOUT_S):
            return None
        until_s, first = time.monotonic() + _TIMEOUT_S, len(job.steps)
        while len(job.steps) - first < _STEPS and time.monotonic() < until_s:
            time.sleep(0.2)
            job.read()
        return step_time_s(steps_of_last_world(job.steps)[-_STEPS:])
    finally:
        job.end()
