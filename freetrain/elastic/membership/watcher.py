"""The thread beside the training: members that are alive, slow or hung, the directory's view, what follows."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from freetrain.elastic.errors import EVICTED_STATUS, DirectoryError
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation, Member, start_ticks, this_host
from freetrain.elastic.on_disk.next_generation import Proposal, View, members_missing, next_generation, watched_by
from freetrain.elastic.timeouts import Timeouts

if TYPE_CHECKING:  # the agent watches, too, and does without torch
    from freetrain.elastic.worlds.world import World

log = logging.getLogger(__name__)

# A look at the directory may take up one part in this many of the watcher's time: on a slow file system the
# watcher looks less often instead of loading the server.
_LOOK_SHARE = 20
# Time for which it looks often all the same: the training stands until the next world is known.
_HURRY_S = 2.0
# Losses often come in twos; one change of the world for both costs half.
_SETTLE_S = 0.03
# Newcomers that start together boot at slightly different speeds. No training waits for them meanwhile.
_GATHER_S = 0.5
# A world still forming when a newer generation appears gets this long: all may yet come, or some have moved on,
# and the others would wait for them.
_SUPERSEDED_S = 1.5
# NCCL waits for ever for a rank that is lost while it connects, and has nothing yet that could be aborted.
_STUCK_S = 30.0
_WARN_AGAIN_S = 60.0
# Members that are started together boot at slightly different speeds.
_WARN_MISSING_AFTER_S = 2.0
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
        silent = []
        for member in members:
            beat, seen = self._last_beat(member), self._seen.get(member)
            if seen is None or seen[0] != beat:
                self._seen[member] = (beat, now_s)
            elif now_s - seen[1] > self._lost_after_s:
                silent.append(member)
        return silent


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """Progress of a worker in its world, as its heartbeats carry it."""

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


class Watcher:
    """Keeps one member's view of the trainer fresh, and proposes generations when it is this member's turn."""

    def __init__(
        self,
        directory: TrainerDirectory,
        member: Member,
        timeouts: Timeouts,
        open_store: Callable[[Proposal], Generation],
        why_foreign: Callable[[Member], str | None],
    ) -> None:
        self._directory = directory
        self._member = member
        self._timeouts = timeouts
        self._open_store = open_store  # that of a proposed generation, in this process
        self._why_foreign = why_foreign  # why a newcomer does not fit in with the others, or None
        self._liveness = Liveness(directory.last_beat, timeouts.lost_after_s, time.monotonic)
        self._waiting = StragglerDetector(timeouts.hung_after_s)
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._hurries_until_s = float("-inf")
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="freetrain-watcher", daemon=True)
        self._world: World | None = None  # that this member is in or forms
        self._main_thread = threading.main_thread().ident or 0
        self._unsettled: tuple[Proposal, float] | None = None
        self._warned_s = float("-inf")
        self._warn_missing_s: float | None = None
        self._settled_view: View | None = None
        self.view = View()

    def start(self) -> None:
        """Begin to beat and to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=5)

    def hurry(self) -> None:
        """Look now, and often for a moment: the training stands until the next world is known."""
        self._hurries_until_s = time.monotonic() + _HURRY_S
        self._wake.set()

    def guard(self, world: World | None) -> None:
        """Get the main thread out of this world when it breaks, from now on; None: out of none."""
        self._world = world

    def wait_for(self, condition: Callable[[View], bool], timeout_s: float) -> bool:
        """Sleep until the view fulfils the condition; False at the end of the time."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self.view), timeout_s)

    def _run(self) -> None:
        beat_due_s = 0.0
        count = 0
        while not self._stop.is_set():
            look_s = time.monotonic()
            if beats := look_s >= beat_due_s:
                beat_due_s = look_s + self._timeouts.beat_s
                if not self._directory.beat(self._member.id, count, str(self._progress())):
                    self._liveness.forget()
                count += 1
            try:
                # The others' heartbeats are read only as often as they are written.
                self._look(silence_too=count > 1 and beats)
                if beats:
                    self._find_stragglers(self.view)
            except DirectoryError as error:
                self._warn(error.what)
            except OSError as error:
                self._warn(f"cannot look at {self._directory.root}: {error}.")
            elapsed_s = time.monotonic() - look_s
            share = 1 if time.monotonic() < self._hurries_until_s else _LOOK_SHARE
            rest_s = max(self._timeouts.poll_s, share * elapsed_s)
            # Until the next beat at most: a look may have been long because the process was stopped in it.
            self._wake.wait(min(rest_s, self._timeouts.beat_s))
            self._wake.clear()

    def _warn(self, what: str) -> None:
        """Warn once in a while, since a directory that is full stays so."""
        now_s = time.monotonic()
        if now_s - self._warned_s > _WARN_AGAIN_S:
            self._warned_s = now_s
            log.warning("%s The training goes on as soon as %s can be used again.", what, self._directory.root)

    def _look(self, *, silence_too: bool) -> None:
        """Read first, then write: what has to be written may fail, and is tried again at the next look."""
        view = self._directory.view()
        # The directory gives the same object where nothing has changed.
        if view is not self.view:
            with self._changed:
                self.view = view
                self._changed.notify_all()
        self._cut_broken(view)
        self._mark_lost(view, silence_too=silence_too)
        if view is self._settled_view:  # nothing followed from it
            return
        self._refuse_misfits(view)
        self._propose(view)
        self._report_missing(view)
        is_pending = self._unsettled is not None or self._warn_missing_s is not None
        self._settled_view = None if is_pending else view

    def _mark_lost(self, view: View, *, silence_too: bool) -> None:
        others = [view.members[id_] for id_ in view.present if id_ != self._member.id]
        for id_ in self._liveness.dead_here(others):
            self._directory.mark_gone(id_, "its process ended without a word")
        if silence_too:
            for id_ in self._liveness.silent(watched_by(self._member.id, view)):
                self._directory.mark_gone(id_, f"no sign of life for {self._timeouts.lost_after_s:g} s")

    def _progress(self) -> WorkerProgress:
        """This member's progress in the world that it is in."""
        world = self._world
        if world is None or not world.is_formed:
            return WorkerProgress()
        # Of the main thread alone: this one, and those of gloo, run on in a process that hangs.
        computed_s = int(time.clock_gettime(time.pthread_getcpuclockid(self._main_thread)))
        return WorkerProgress(world.generation.number, world.started, int(1000 * world.waited_s), computed_s)

    def _find_stragglers(self, view: View) -> None:
        # Rank 0 alone, as it looks at everybody's signs of life anyway.
        if not view.current or view.current[0] != self._member.id:
            return
        progress = {id_: WorkerProgress.of(self._directory.last_beat(id_)) for id_ in view.current}
        found = self._waiting.look(progress, view.number, time.monotonic())
        for id_, wait_s in found.hung_s.items():
            reason = f"no sign of progress for {wait_s:.0f} s, while others waited for it"
            log.warning("%s is given up: %s", id_, reason)
            self._directory.mark_gone(id_, reason)
        for id_, share in found.slow.items():
            log.warning("%s is slow: the others waited for it %.0f %% of the last minute", id_, 100 * share)

    def _refuse_misfits(self, view: View) -> None:
        # A member that waits itself may be the one that does not fit.
        for id_ in (*view.outside, *view.servers) if self._member.id in view.ranks else ():
            if reason := self._why_foreign(view.members[id_]):
                self._directory.refuse(id_, reason)

    def _propose(self, view: View) -> None:
        proposal = next_generation(view, self._timeouts.min_members)
        if proposal is None or proposal.proposer != self._member.id:
            self._unsettled = None
            return
        now_s = time.monotonic()
        if self._unsettled is None or self._unsettled[0] != proposal:
            self._unsettled = (proposal, now_s)
        patience_s = _GATHER_S if proposal.cause in ("start", "join") else _SETTLE_S
        is_settled = now_s - self._unsettled[1] >= patience_s
        if not is_settled or self._member.id in view.gone or self._member.id in view.refused:
            return
        generation = self._open_store(proposal)
        won = self._directory.publish(generation)
        facts = generation.number, generation.world, len(generation.servers), "published" if won else "lost"
        log.info("generation %d with %d workers and %d servers %s", *facts)

    def _report_missing(self, view: View) -> None:
        """The first of the waiting members reports it, after a moment and then once in a while."""
        needed = self._timeouts.min_members
        missing = members_missing(view, needed)
        if not missing or view.waiting[0] != self._member.id:
            self._warn_missing_s = None
            return
        now_s = time.monotonic()
        if self._warn_missing_s is None:
            self._warn_missing_s = now_s + _WARN_MISSING_AFTER_S
        elif now_s >= self._warn_missing_s:
            self._warn_missing_s = now_s + _WARN_AGAIN_S
            here = len(view.waiting)
            log.warning("waiting for %d more: %d are here, and it starts with %d (--min)", missing, here, needed)

    def _cut_broken(self, view: View) -> None:
        """Members of a world that lost somebody may wait for ever in a collective: get them out."""
        world = self._world
        if world is None:
            return
        # Also where a newer generation has come already: members still in this world would keep it waiting.
        is_broken = world.generation.number in view.broken_numbers
        if is_broken or any(id_ in view.gone for id_ in world.generation.everyone):
            patience_s = self._timeouts.cut_after_s
        elif not world.is_formed and view.number > world.generation.number:
            patience_s = _SUPERSEDED_S
        else:
            return
        now_s = time.monotonic()
        world.broken_since_s = world.broken_since_s or now_s
        # Until then the main thread may get out by itself; it may also have left this world meanwhile.
        if now_s - world.broken_since_s >= patience_s and world is self._world:
            world.cut()
            if world.connects_gpus and now_s - world.broken_since_s >= _STUCK_S:
                log.error("this worker ends: NCCL still waits for a rank that was lost while it connected")
                end_at_once(EVICTED_STATUS)


def end_at_once(status: int) -> None:
    """End the process, whose main thread does not come back."""
    os._exit(status)
