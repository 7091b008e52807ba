"""Lets things happen to a training, and takes down how it came through."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from benchmarks.elastic.job import Job
from benchmarks.elastic.steps import Change, change_in, steps_of_last_world
from benchmarks.elastic.systems import System

NOT_STARTED = "not started"
LEAVER_STAYED = "leaver stayed"
FELL_APART = "fell apart before"
_LEAVE_WITHIN_S = 40.0
_STARTS_IN_VAIN = 2
"""After so many in a row no further one is tried."""
_STEPS_BEFORE = 50
"""So many steps before an event tell how long a step takes."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changes the size of a training's world.

    Attributes:
        name: for the tables.
        before: ranks of the world that it happens to.
        after: ranks of the world that should follow.
        kind: join: nodes come; leave: one is asked to go; kill: one vanishes that neither has rank 0 nor holds the
            store; kill store: the one vanishes that holds it.
    """

    name: str
    before: int
    after: int
    kind: Literal["join", "leave", "kill", "kill store"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one event.

    Attributes:
        system: whose training it was.
        event: what happened.
        repeat: from 0.
        parameters: of the model.
        failure: why there is no pause; empty if there is one.
        change: the pause and what belongs to it; None after a failure.
        last_words: after a failure, what the nodes said last.
    """

    system: str
    event: str
    repeat: int
    parameters: int
    failure: str
    change: Change | None = None
    last_words: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all systems are measured under.

    Attributes:
        parameters: of the model.
        device_s: seconds that each step sleeps, as if an accelerator worked.
        settle_steps: steps after which a world counts as settled.
        timeout_s: a change that takes longer is reported as hung.
        optimizer: sgd or adam.
    """

    parameters: int = 250_000
    device_s: float = 0.01
    settle_steps: int = 20
    timeout_s: float = 90.0
    optimizer: str = "sgd"


def measure(
    system: System, events: Sequence[Event], repeats: int, conditions: Conditions | None = None
) -> Iterator[Outcome]:
    """Let the events happen again and again to one training, which is started again only where it failed."""
    rig = _Rig(system, conditions or Conditions())
    try:
        for repeat in range(repeats):
            for event in events:
                yield rig.outcome_of(event, repeat)
    finally:
        rig.end()


def measure_by_turns(
    systems: Sequence[System], events: Sequence[Event], repeats: int, conditions: Conditions | None = None
) -> Iterator[Outcome]:
    """The systems one after the other, again and again: what else runs meanwhile does not fall on one alone."""
    for repeat in range(repeats):
        for system in systems:
            for outcome in measure(system, events, 1, conditions):
                yield replace(outcome, repeat=repeat)


class _Rig:
    def __init__(self, system: System, conditions: Conditions) -> None:
        self._system = system
        self._conditions = conditions
        self._job: Job | None = None
        self._starts_in_vain = 0
        self._draw = random.Random(0)

    def outcome_of(self, event: Event, repeat: int) -> Outcome:
        facts = (self._system.name, event.name, repeat, self._conditions.parameters)
        job = self._job_of_size(event.before)
        if job is None:
            return Outcome(*facts, NOT_STARTED)
        # Nothing should depend on where in its step, or its look at the directory, a worker is.
        time.sleep(self._draw.uniform(0.3, 0.8))
        job.read()
        first = len(job.steps) - len(steps_of_last_world(job.steps[-_STEPS_BEFORE:]))
        failure = self._happen(job, event)
        if not failure:
            return Outcome(*facts, "", change_in(job.steps[first:]))
        last_words = job.last_words()
        self.end()
        return Outcome(*facts, failure, last_words=last_words)

    def _job_of_size(self, ranks: int) -> Job | None:
        if self._job is not None and self._job.ranks == ranks:
            return self._job
        self.end()
        if self._starts_in_vain == _STARTS_IN_VAIN:
            return None
        given = self._conditions
        self._job = Job(self._system, given.parameters, given.device_s, given.optimizer)
        self._job.start(ranks)
        if self._await_settled(self._job, ranks):
            self._starts_in_vain += 1
            self.end()
        else:
            self._starts_in_vain = 0
        return self._job

    def _happen(self, job: Job, event: Event) -> str:
        if event.kind == "join":
            job.start(event.after - event.before)
            return self._await_settled(job, event.after)
        node = job.holder_of_store() if event.kind == "kill store" else job.newest()
        if node is None or job.ranks != event.before:
            return FELL_APART
        if event.kind != "leave":
            node.kill()
            return self._await_settled(job, event.after)
        node.ask_to_leave()
        failure = self._await_settled(job, event.after)
        return failure if failure or node.await_end(_LEAVE_WITHIN_S) else LEAVER_STAYED

    def _await_settled(self, job: Job, ranks: int) -> str:
        return job.await_settled(ranks, self._conditions.settle_steps, self._conditions.timeout_s)

    def end(self) -> None:
        if self._job is not None:
            self._job.end()
            self._job = None
