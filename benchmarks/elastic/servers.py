"""Gradients added up by servers: steps beside those of the ring, pauses when workers and servers come and go."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.elastic.events import NOT_STARTED, Conditions, Outcome
from benchmarks.elastic.job import HUNG, Job
from benchmarks.elastic.processes import Node
from benchmarks.elastic.steps import change_in, step_time_s, steps_of_last_world
from benchmarks.elastic.systems import served_by
from freetrain.elastic.on_disk.directory import TrainerDirectory

PARAMETERS = (250_000, 10_000_000)
WORKERS, SERVERS = (1, 2, 4), (0, 1, 2)
_WARM_STEPS, _STEPS = 10, 60
_PAUSES_WORKERS = 2
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ServedStep:
    """Steps of one training.

    Attributes:
        parameters: of the model.
        workers: how many.
        servers: how many; 0: the workers add up in a ring.
        step_s: median.
    """

    parameters: int
    workers: int
    servers: int
    step_s: float


def measure_steps() -> Iterator[ServedStep]:
    """Nothing but gradients: the steps compute next to nothing."""
    for parameters in PARAMETERS:
        for workers in WORKERS:
            for servers in (each for each in SERVERS if each <= workers):
                rig = _Rig(parameters, 0.0, servers)
                try:
                    if not rig.settle(workers, servers, _WARM_STEPS + _STEPS):
                        steps = steps_of_last_world(rig.job.steps)[_WARM_STEPS:]
                        yield ServedStep(parameters, workers, servers, step_time_s(steps) or float("nan"))
                finally:
                    rig.job.end()


def measure_pauses(repeats: int) -> Iterator[Outcome]:
    """Workers and servers come, leave and are killed, again and again in one training."""
    given = Conditions()
    rig = _Rig(given.parameters, given.device_s, 1)
    try:
        if rig.settle(_PAUSES_WORKERS, 1, given.settle_steps):
            yield Outcome(rig.job.system.name, "start", 0, given.parameters, NOT_STARTED)
            return
        for repeat in range(repeats):
            for name, (act, workers) in rig.acts.items():
                rig.job.read()
                first = max(0, len(rig.job.steps) - given.settle_steps)
                before = rig.server
                act()
                failure = rig.settle(workers, 1, given.settle_steps, before if "server" in name else "")
                change = None if failure else change_in(rig.job.steps[first:])
                yield Outcome(rig.job.system.name, name, repeat, given.parameters, failure, change)
                if failure:
                    return
    finally:
        rig.job.end()


class _Rig:
    """A training with servers."""

    def __init__(self, parameters: int, device_s: float, servers: int) -> None:
        self.job = Job(served_by(servers), parameters, device_s)
        self._started = False

    @property
    def acts(self) -> Mapping[str, tuple[Callable[[], object], int]]:
        """What may happen, and how many workers there are afterwards."""
        most = _PAUSES_WORKERS + 1
        return {
            f"grow {most - 1}→{most}": (lambda: self.job.start(1), most),
            f"leave {most}→{most - 1}": (lambda: self._newest().ask_to_leave(), most - 1),
            "server leaves, another comes": (lambda: self._directory.leave(self.server), most - 1),
            "kill -9 of the server, another comes": (self._kill_server, most - 1),
        }

    @property
    def server(self) -> str:
        """The one of the latest world; empty: there is none."""
        generation = self._directory.view().generation
        return next(iter(generation.servers), "") if generation else ""

    @property
    def _directory(self) -> TrainerDirectory:
        return TrainerDirectory.open(self.job.trainer)

    def _newest(self) -> Node:
        node = self.job.newest()
        assert node is not None
        return node

    def _kill_server(self) -> None:
        os.kill(self._directory.view().members[self.server].pid, signal.SIGKILL)

    def settle(self, workers: int, servers: int, steps: int, but: str = "") -> str:
        """Wait for a world of this size, without this server, and for so many steps of it; why there is none."""
        if not self._started:
            self.job.start(workers)
            self._started = True
        until_s = time.monotonic() + Conditions().timeout_s
        while time.monotonic() < until_s:
            view = self._directory.view()
            generation = view.generation
            size = (generation.world, len(generation.servers)) if generation is not None else (0, 0)
            if generation is not None and size == (workers, servers) and but not in generation.servers:
                self.job.read()
                return self._await_steps(workers, len(self.job.steps), steps, until_s)
            time.sleep(_POLL_S)
        return HUNG

    def _await_steps(self, workers: int, done: int, steps: int, until_s: float) -> str:
        while time.monotonic() < until_s:
            self.job.read()
            newer = self.job.steps[done:]
            if newer and newer[-1].ranks == workers and len(steps_of_last_world(newer)) >= steps:
                return ""
            time.sleep(_POLL_S)
        return HUNG
