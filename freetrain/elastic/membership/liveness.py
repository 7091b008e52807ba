"""Which workers are alive, which are slow, and which come to no end."""

from __future__ import annotations

import contextlib
import os
import select
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from freetrain.elastic.on_disk.members import Member, start_ticks, this_host

# Time over which waiting is compared: single steps, and looks at them, vary too much.
_WINDOW_S = 60.0
# A worker is reported as slow when the others have waited more than it by this share of the time.
_MIN_SHARE = 0.1


class WatchedProcess:
    """A process on this machine, known by its id and its start, as an id is used again."""

    def __init__(self, pid: int, started_ticks: int) -> None:
        self._pid, self._started_ticks = pid, started_ticks
        self._poll = select.poll()
        self._descriptor: int | None = None
        # Before Linux 5.3 there are no descriptors of processes, and each question reads the process table.
        with contextlib.suppress(OSError, AttributeError):
            self._descriptor = os.pidfd_open(pid)
            self._poll.register(self._descriptor, select.POLLIN)
        # After the descriptor: from then on the number cannot pass to another process unseen.
        self._is_other = start_ticks(pid) != started_ticks

    def has_ended(self) -> bool:
        """Whether it has, or was another one from the start."""
        if self._descriptor is None:
            return start_ticks(self._pid) != self._started_ticks
        return self._is_other or bool(self._poll.poll(0))

    def close(self) -> None:
        """Watch it no longer."""
        if self._descriptor is not None:
            os.close(self._descriptor)


class Liveness:
    """Watches members' signs of life.

    Hosts' clocks are never compared: a member is lost when its heartbeat has not *changed* for ``lost_after_s`` on
    the observer's own clock. An observer that was stopped itself starts counting again, or it would give up
    everybody else for lost when it wakes up.
    """

    def __init__(self, last_beat: Callable[[str], str], lost_after_s: float, now_s: Callable[[], float]) -> None:
        self._last_beat = last_beat
        self._lost_after_s = lost_after_s
        self._now_s = now_s
        self._seen: dict[str, tuple[str, float]] = {}
        self._looked_s = now_s()
        self._processes: dict[str, WatchedProcess] = {}

    def forget(self) -> None:
        """Start counting again: a member that cannot leave a sign of life itself must not miss the others'."""
        self._seen.clear()

    def dead_here(self, members: Iterable[Member]) -> list[str]:
        """Members whose process on this machine has ended; costs microseconds."""
        here = {member.id: member for member in members if member.host == this_host()}
        for id_ in self._processes.keys() - here.keys():
            self._processes.pop(id_).close()
        for id_ in here.keys() - self._processes.keys():
            self._processes[id_] = WatchedProcess(here[id_].pid, here[id_].started_ticks)
        return [id_ for id_ in here if self._processes[id_].has_ended()]

    def silent(self, members: Iterable[str]) -> list[str]:
        """Members whose heartbeat has not changed for too long."""
        now_s = self._now_s()
        if now_s - self._looked_s > self._lost_after_s / 2:
            self._seen.clear()
        self._looked_s = now_s
        return [member for member in members if self._silence_s(member, now_s) > self._lost_after_s]

    def _silence_s(self, member: str, now_s: float) -> float:
        beat = self._last_beat(member)
        seen = self._seen.get(member)
        if seen is None or seen[0] != beat:
            self._seen[member] = (beat, now_s)
            return 0.0
        return now_s - seen[1]


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """How far a worker is."""

    generation: int = 0  # number of its world; 0 before the first
    started: int = 0  # sums, broadcasts and the like that it has begun in that world; all begin the same ones
    waited_ms: int = 0  # that it has waited in that world for the sums of its steps
    computed_s: int = 0  # whole seconds that its main thread has computed

    @classmethod
    def of(cls, beat: str) -> WorkerProgress:
        """Progress as a heartbeat has it, after the count of beats."""
        try:
            _, generation, started, waited_ms, computed_s = map(int, beat.split())
        except ValueError:
            return cls()
        return cls(generation, started, waited_ms, computed_s)

    def __str__(self) -> str:
        """Progress as a heartbeat has it: always as long."""
        return f"{self.generation:10d} {self.started:14d} {self.waited_ms:14d} {self.computed_s:13d}"


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Findings of one look."""

    hung_s: Mapping[str, float] = field(default_factory=dict)  # workers that stand still, and for how long
    slow: Mapping[str, float] = field(default_factory=dict)  # and the share of a minute that others waited more


class StragglerDetector:
    """Compares the workers of one world at each look."""

    def __init__(self, hung_after_s: float) -> None:
        self._hung_after_s = hung_after_s
        self._generation = 0
        self._behind: dict[str, tuple[WorkerProgress, float]] = {}
        self._first: Mapping[str, WorkerProgress] = {}
        self._first_s = 0.0

    def look(self, progress: Mapping[str, WorkerProgress], generation: int, now_s: float) -> Stragglers:
        """Compare the workers of one world by their latest signs of life, but for those that are not in it yet."""
        here = {id_: worker for id_, worker in progress.items() if worker.generation == generation}
        if generation != self._generation or here.keys() != self._first.keys():
            self._generation, self._behind = generation, {}
            self._first, self._first_s = here, now_s
        return Stragglers(self._hung_s(here, now_s), self._slow(here, now_s))

    def _hung_s(self, here: Mapping[str, WorkerProgress], now_s: float) -> dict[str, float]:
        furthest = max((worker.started for worker in here.values()), default=0)
        before, self._behind = self._behind, {}
        for id_, worker in here.items():
            if worker.started < furthest:
                known, since_s = before.get(id_, (WorkerProgress(), now_s))
                # Computing counts as moving: there may be much of it between two collectives.
                stands = (known.started, known.computed_s) == (worker.started, worker.computed_s)
                self._behind[id_] = (worker, since_s if stands else now_s)
        waits_s = {id_: now_s - since_s for id_, (_, since_s) in self._behind.items()}
        return {id_: wait_s for id_, wait_s in waits_s.items() if wait_s > self._hung_after_s}

    def _slow(self, here: Mapping[str, WorkerProgress], now_s: float) -> dict[str, float]:
        elapsed_s = now_s - self._first_s
        if elapsed_s < _WINDOW_S or not here:
            return {}
        shares = {
            id_: (worker.waited_ms - self._first[id_].waited_ms) / 1000 / elapsed_s for id_, worker in here.items()
        }
        self._first, self._first_s = here, now_s
        # The higher one: of two workers the one that waits is the measure, not the mean of both.
        usual = statistics.median_high(shares.values())
        return {id_: usual - share for id_, share in shares.items() if usual - share > _MIN_SHARE}
