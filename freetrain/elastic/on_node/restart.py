"""Restart mode: unmodified torchrun-style scripts, restarted from their own checkpoint at every rescale."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.membership.identity import this_address, this_member
from freetrain.elastic.membership.watcher import Watcher
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.files import write_json
from freetrain.elastic.on_disk.members import Generation, Member, this_host
from freetrain.elastic.on_disk.next_generation import Proposal, View
from freetrain.elastic.on_disk.progress import ProgressWriter, Tally
from freetrain.elastic.on_node.workers import (
    AgentEnd,
    AgentOptions,
    Signals,
    Template,
    Worker,
    describe,
    start_process,
    torchrun_variables,
)
from freetrain.elastic.timeouts import Timeouts
from freetrain.errors import InputError

log = logging.getLogger(__name__)

_POLL_S = 0.02
# A worker that fails when another node vanishes is no failure of its own: this long a new generation may take.
_BLAME_AFTER_S = 2.0
# A node whose template has not imported all by then joins without it.
_IMPORT_TIMEOUT_S = 120.0
# Until a new world's first step: a pause is known as exactly as this.
_FIRST_STEP_POLL_S = 0.2
LAST_NUMBER = r"(\d+)\D*$"
"""Pattern for the last whole number of a line."""

# A script's log may be of any length, and is looked at every few seconds.
_TAIL_BYTES = 65_536


class RestartAgent:
    """Runs the workers of one node; the agents are the members, and the first one writes the progress."""

    def __init__(
        self,
        directory: TrainerDirectory,
        options: AgentOptions,
        signals: Signals,
        timeouts: Timeouts,
        progress: RestartProgress,
    ) -> None:
        self._directory = directory
        self._options = options
        self._signals = signals
        self._progress = progress
        self._me = this_member("restart mode", "", options.nproc)
        self._watcher = Watcher(directory, self._me, timeouts, _with_port, _why_foreign)
        self._generation: Generation | None = None
        self._waits = False
        self._workers: list[Worker] = []
        self._template: Template | None = None
        self._failed_s: float | None = None
        self._failures: list[str] = []

    def run(self) -> AgentEnd:
        """Join, and run the workers of every generation until the training is complete or this node leaves."""
        self._start_template()
        self._directory.beat(self._me.id, -1)
        self._directory.join(self._me)
        self._watcher.start()
        ending: AgentEnd | None = None
        try:
            while ending is None:
                ending = self._look(self._watcher.view)
                time.sleep(_POLL_S)
        finally:
            self._stop_workers()
            if self._template is not None:
                self._template.end()
            with contextlib.suppress(DirectoryError):
                self._directory.mark_gone(self._me.id, ending.reason if ending else "interrupted")
            self._watcher.stop()
        return ending

    def _look(self, view: View) -> AgentEnd | None:
        if self._signals.received is not None:
            # Before its workers know: they may make those of the other nodes save and end with status 0.
            with contextlib.suppress(DirectoryError):
                self._directory.leave(self._me.id)
            return AgentEnd(0, f"left on {self._signals.received}; the training can go on without this node")
        if self._me.id in view.leaving:
            return AgentEnd(0, "left, as asked")
        if self._me.id in view.refused:
            return AgentEnd(1, f"the trainer refuses this node: {view.refused[self._me.id]}")
        if self._me.id in view.gone:
            return AgentEnd(1, f"given up for lost by the others: {view.gone[self._me.id]}")
        if not self._workers and self._directory.finished_path.exists():
            return AgentEnd(0, "the training is complete")
        if self._is_new(view):
            self._stop_workers()
            self._generation, self._waits, self._failed_s = view.generation, True, None
        if self._waits:
            self._start_workers_when_all_have_stopped(view)
        return self._look_at_workers(view)

    def _is_new(self, view: View) -> bool:
        if view.generation is None or self._me.id not in view.ranks or self._directory.finished_path.exists():
            return False
        return self._generation is None or view.number > self._generation.number

    def _look_at_workers(self, view: View) -> AgentEnd | None:
        """The end of this agent after a look at its workers; None: it goes on.

        All ended well: complete. One failed: wait whether another node is to blame, else restart all.
        """
        self._progress.look()
        statuses = [worker.poll() for worker in self._workers]
        if self._workers and all(status == 0 for status in statuses):
            if not self._is_complete():
                return None
            write_json(self._directory.finished_path, {"time_s": time.time()}, mode=0o644)
            return AgentEnd(0, "the training is complete")
        bad = [status for status in statuses if status]
        # A newer generation explains why they failed, and starts them again.
        if not bad or self._generation is None or view.number > self._generation.number:
            return None
        self._failed_s = self._failed_s or time.monotonic()
        if time.monotonic() - self._failed_s < _BLAME_AFTER_S:
            return None
        self._failures.append(describe(bad[0]))
        self._failed_s = None
        if len(self._failures) > self._options.max_restarts:
            return AgentEnd(1, f"workers failed {len(self._failures)} times, last with {self._failures[-1]}")
        self._stop_workers()
        self._directory.report_broken(self._generation.number, describe(bad[0]))
        return None

    def _is_complete(self) -> bool:
        """Whether the script came to its end, and did not save because a node comes or leaves."""
        assert self._generation is not None
        if self._directory.finished_path.exists():
            return True
        try:
            # Read now: a script whose ranks agree to save may end before the watcher has seen why.
            view = self._directory.view()
        except OSError:  # looked at again in a moment
            return False
        return view.number == self._generation.number and {*view.leaving, *view.gone}.isdisjoint(view.ranks)

    def _start_workers_when_all_have_stopped(self, view: View) -> None:
        """Start them once no worker of an earlier world can be saving what these will read."""
        assert self._generation is not None
        if self._me.id not in view.stopped:
            with contextlib.suppress(DirectoryError):  # written at the next look, or the one after
                self._directory.note_stopped(self._generation.number, self._me.id)
        here = set(view.present)
        is_free = here.isdisjoint(view.leaving) and here.intersection(view.ranks) <= view.stopped
        if is_free and view.number == self._generation.number:
            self._waits = False
            self._start_workers(view, self._generation)

    def _start_workers(self, view: View, generation: Generation) -> None:
        log.info("generation %d: starting %d workers", generation.number, self._options.nproc)
        for index in range(self._options.nproc):
            environment = torchrun_environment(view, self._me.id, index, self._directory.root.name)
            name = f"{self._me.id}-{index}"
            path = self._options.log_of(name)
            forked = self._template.fork(environment, path) if self._template is not None else None
            process = forked or start_process(self._options.command, environment, path)
            self._workers.append(Worker(process, name, index))
        if generation.rank_of(self._me.id) == 0:
            self._progress.start(generation, sum(view.members[id_].slots for id_ in view.ranks))

    def _start_template(self) -> None:
        # Before it joins, as its coming makes the others stop: they train on while it imports.
        with contextlib.suppress(InputError):  # a command in which no script is to be seen has none
            self._template = template = Template(self._options.command)
            until_s = time.monotonic() + _IMPORT_TIMEOUT_S
            while template.runs and not template.is_ready and time.monotonic() < until_s:
                template.look(_POLL_S)
                if self._signals.received is not None:
                    return

    def _stop_workers(self) -> None:
        """Give scripts that catch SIGTERM the time to write a checkpoint."""
        if not self._workers:
            return
        self._progress.pause()
        for worker in self._workers:
            worker.terminate()
        timeout_s = self._options.end_timeout_s
        until_s = time.monotonic() + timeout_s
        while any(worker.poll() is None for worker in self._workers) and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        self._progress.end()
        late = sum(worker.poll() is None for worker in self._workers)
        if late:
            log.warning(
                "%d workers had not ended %g s after SIGTERM (--save-timeout) and were killed", late, timeout_s
            )
        for worker in self._workers:
            worker.kill()
        self._workers = []


def torchrun_environment(view: View, me: str, index: int, run_id: str) -> Mapping[str, str]:
    """The environment that torchrun would give to this worker."""
    generation = view.generation
    assert generation is not None
    slots = [view.members[id_].slots for id_ in generation.members]
    group_rank = generation.rank_of(me)
    same_host = generation.host == this_host()
    return {
        **torchrun_variables(sum(slots[:group_rank]) + index, sum(slots), index, slots[group_rank], run_id),
        "GROUP_RANK": str(group_rank),
        "GROUP_WORLD_SIZE": str(len(slots)),
        "MASTER_ADDR": "127.0.0.1" if same_host else generation.address,
        "MASTER_PORT": str(generation.port),
        "TORCHELASTIC_RESTART_COUNT": str(generation.number - 1),
    }


def _with_port(proposal: Proposal) -> Generation:
    """The generation of a proposal, whose store rank 0's script opens, on a port that is free now."""
    with socket.socket() as probe:
        # If another process takes it before the script does, the workers fail and the next world has another.
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    return Generation(proposal.number, proposal.members, this_host(), this_address(), port, "", proposal.cause)


def _why_foreign(newcomer: Member) -> str | None:
    is_alike = newcomer.fingerprint == "restart mode"
    return None if is_alike else "the trainer there runs in restart mode, this process does not"


class RestartProgress:
    """Writes what the first agent of each generation sees, with the script's steps if a file has them."""

    def __init__(
        self,
        path: Path,
        steps: WatchedSteps | None = None,
        samples_per_step: int = 1,
        every_s: float = 5.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = ProgressWriter(path)
        self._steps = steps
        self._samples_per_step = samples_per_step
        self._every_s = every_s
        self._now_s = now_s
        self._paused_since_s: float | None = None
        self._started_s = 0.0
        self._save_s: float | None = None
        self._looked_s = self._since_s = now_s()
        self._generation: Generation | None = None
        self._world = 0
        self._step = 0
        self._trains = False

    def pause(self) -> None:
        """The workers are about to be ended."""
        self.look(at_once=True)
        self._paused_since_s = self._now_s()
        self._generation = None

    def end(self) -> None:
        """The workers have ended, or their time is up."""
        if self._paused_since_s is not None:
            self._save_s = self._now_s() - self._paused_since_s

    def start(self, generation: Generation, world: int) -> None:
        """This generation's workers have been started, so many in all; this agent is its first."""
        self._generation, self._world = generation, world
        self._trains = False
        self._started_s = self._now_s()
        self._step = self._latest()
        if self._steps is None:
            self._tell_start()

    def look(self, *, at_once: bool = False) -> None:
        """See how far the script is, when it is time to, and write a line on it."""
        now_s = self._now_s()
        rest_s = self._every_s if self._trains else _FIRST_STEP_POLL_S
        if self._steps is None or self._generation is None or (now_s - self._looked_s < rest_s and not at_once):
            return
        self._looked_s = now_s
        step = self._latest()
        if step == self._step:
            return
        if not self._trains:
            self._tell_start()
        elif step > self._step:
            steps, per_step = step - self._step, self._samples_per_step
            tally = Tally(steps, steps * per_step, elapsed_s=now_s - self._since_s)
            self._progress.write_rate_of(tally, **self._facts(step), epoch=0, samples_done=step * per_step)
        # Fewer steps than before: the script went back to its checkpoint.
        self._step, self._since_s, self._trains = step, now_s, True

    def _latest(self) -> int:
        return (self._steps.latest() if self._steps else None) or 0

    def _tell_start(self) -> None:
        assert self._generation is not None
        now_s = self._now_s()
        parts: dict[str, float] = {
            "pause_s": 0.0 if self._paused_since_s is None else now_s - self._paused_since_s
        }
        if self._save_s is not None:
            parts["save_s"] = self._save_s
        if self._steps is not None:
            parts["start_s"] = now_s - self._started_s
        self._paused_since_s = self._save_s = None
        cause = self._generation.cause
        self._progress.write_event("rescale", **self._facts(self._step), cause=cause, **parts)

    def _facts(self, step: int) -> dict[str, int]:
        assert self._generation is not None
        nodes = len(self._generation.members)
        return {"generation": self._generation.number, "world": self._world, "nodes": nodes, "step": step}


@dataclass(frozen=True, slots=True)
class WatchedSteps:
    """Steps of the script, as read from a file."""

    path: Path  # the file
    pattern: re.Pattern[str]  # its first group is the number of steps completed; the last line that has it counts

    def latest(self) -> int | None:
        """The number of steps completed; None: the file is not there, or does not have it."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
                # What follows the last newline is still being written.
                lines = stream.read().decode(errors="replace").split("\n")[:-1]
        except OSError:
            return None
        found = next(filter(None, map(self.pattern.search, reversed(lines))), None)
        try:
            return int(found.group(1)) if found else None
        except (TypeError, ValueError):  # a group of the user's that has matched nothing, or no number
            return None
