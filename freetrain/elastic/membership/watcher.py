"""The thread beside the training: signs of life, a look at the directory, and what follows from it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.membership.liveness import Liveness, StragglerDetector, WorkerProgress
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation, Member
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

_WARN_AGAIN_S = 60.0

# Members that are started together boot at slightly different speeds.
_WARN_MISSING_AFTER_S = 2.0


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
            self._wake.wait(self._rest_s(time.monotonic() - look_s))
            self._wake.clear()

    def _warn(self, what: str) -> None:
        """Warn once in a while, since a directory that is full stays so."""
        now_s = time.monotonic()
        if now_s - self._warned_s > _WARN_AGAIN_S:
            self._warned_s = now_s
            log.warning("%s The training goes on as soon as %s can be used again.", what, self._directory.root)

    def _rest_s(self, look_s: float) -> float:
        """How long to rest after a look that took so long."""
        # Until the next beat at most: a look may have been long because the process was stopped in it.
        share = 1 if time.monotonic() < self._hurries_until_s else _LOOK_SHARE
        return min(max(self._timeouts.poll_s, share * look_s), self._timeouts.beat_s)

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
        if not self._settled(proposal) or self._member.id in view.gone or self._member.id in view.refused:
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

    def _settled(self, proposal: Proposal) -> bool:
        """Whether the same proposal has been due for a moment."""
        now_s = time.monotonic()
        if self._unsettled is None or self._unsettled[0] != proposal:
            self._unsettled = (proposal, now_s)
        patience_s = _GATHER_S if proposal.cause in ("start", "join") else _SETTLE_S
        return now_s - self._unsettled[1] >= patience_s

    def _cut_broken(self, view: View) -> None:
        """Members of a world that lost somebody may wait for ever in a collective: get them out."""
        world = self._world
        if world is None:
            return
        patience_s = self._patience_s(world, view)
        if patience_s is None:
            return
        now_s = time.monotonic()
        world.broken_since_s = world.broken_since_s or now_s
        # The main thread may have left this world while this thread looked.
        if now_s - world.broken_since_s >= patience_s and world is self._world:
            world.cut()

    def _patience_s(self, world: World, view: View) -> float | None:
        """How long the main thread may try to get out by itself; None: this world is as it should be."""
        # Also where a newer generation has come already: members still in this world would keep it waiting.
        broken = world.generation.number in view.broken_numbers
        if broken or any(id_ in view.gone for id_ in world.generation.everyone):
            return self._timeouts.cut_after_s
        if not world.is_formed and view.number > world.generation.number:
            return _SUPERSEDED_S
        return None
