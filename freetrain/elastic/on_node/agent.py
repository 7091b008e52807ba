"""The agent on a node: it starts the workers, watches them, and takes them out of the training in time.

Of scripts for torchrun that are adopted it decides which rank each of them is, and which is rank 0 next.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Collection, Mapping

from freetrain.elastic.errors import EVICTED_STATUS, NOT_ADOPTED_STATUS, ODD_STATUS, DirectoryError
from freetrain.elastic.membership.identity import (
    AGENT_VARIABLE,
    MAIN_VARIABLE,
    MEMBER_VARIABLE,
    REPLICA_VARIABLE,
    SERVER_VARIABLE,
    new_id,
)
from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE, LOCAL_WORLD_SIZE_VARIABLE
from freetrain.elastic.on_node.servers import Hosting, ServerDuty
from freetrain.elastic.on_node.workers import (
    AgentEnd,
    AgentOptions,
    Signals,
    Worker,
    count_gpus,
    describe,
    start_process,
    torchrun_variables,
)
from freetrain.errors import ExitCode

log = logging.getLogger(__name__)

_POLL_S, _RANKS_EVERY_S = 0.05, 1.0
# A worker that the others gave up gets this long to notice and end by itself.
_GONE_BUT_ALIVE_S = 2.0
_FOR_TORCHRUN = (
    "the script never joined the trainer: let it train with freetrain.elastic (docs/users/elastic.md), or give "
    "--adopt or --restart where it is one for torchrun"
)


class Agent:
    """Runs the workers of one node."""

    def __init__(self, directory: TrainerDirectory, options: AgentOptions, signals: Signals) -> None:
        self.id = new_id()
        self._directory = directory
        self._options = options
        self._signals = signals
        self._workers: list[Worker] = []
        self._started = 0
        self._replicas = 0
        self._broken = False
        self._missing: list[int] = []
        self._failures: list[str] = []
        self._unreported: list[tuple[Worker, int]] = []
        self._unusable = ""
        self._never_joined = 0
        self._killed = 0
        self._leaving: str | None = None
        self._leaving_since_s = 0.0
        self._server_duty = ServerDuty(directory, self.id, options.servers)
        self._script_ranks = ScriptRanks(directory, options.ranks, options.nproc) if options.ranks else None
        self._successor_of: dict[str, Worker] = {}
        self._complaint = ""

    def run(self) -> AgentEnd:
        """Start the workers and stay until the last has ended."""
        try:
            self._start_all()
            self._report("running", "")
            while self._workers:
                self._look()
                time.sleep(_POLL_S)
        finally:
            for worker in self._workers:
                worker.kill()
            self._server_duty.close()
        self._directory.forget_replica(self._replica)
        ending = self._ending()
        try:
            self._report("ended", ending.reason)
        except DirectoryError as error:
            self._warn_once(error)
        return ending

    def _look(self) -> None:
        for worker in list(self._workers):
            status = worker.poll()
            if status is not None:
                self._note_end(worker, status)
            else:
                self._kill_if_overdue(worker)
        if self._broken and self._is_bound():
            self._kill_all()  # they need the shard of the model that is lost
        self._report_ended()
        if self._signals.received is not None and self._leaving is None:
            # Wall time, as it is compared with the times of checkpoint files.
            self._leaving, self._leaving_since_s = self._signals.received, time.time()
            for worker in self._workers:
                self._ask_to_leave(worker)
        if self._leaving is None:
            self._serve_requests()
            self._update_server()
            if self._script_ranks is not None:
                self._look_at_ranks(self._script_ranks)

    def _start_all(self) -> None:
        """Start all workers of the node, which then may share a model."""
        self._directory.forget_replica(self._replica)
        self._replicas += 1
        self._broken = False
        for index in range(self._options.nproc):
            self._start(index)

    def _is_bound(self) -> bool:
        """Whether each worker has a shard of the model, so that none can go on without the others."""
        return self._directory.is_bound(self._replica)

    @property
    def _replica(self) -> str:
        return f"{self.id}.{self._replicas}"

    def _kill_all(self) -> None:
        """End all workers; that they end so is no failure of their own."""
        for worker in self._workers:
            worker.ends_with_replica = True
            worker.kill()

    def _start(self, index: int, *, is_server: bool = False) -> None:
        name = f"{self.id}-{self._started}"
        self._started += 1
        environment = self._environment(name, index, is_server=is_server)
        process = start_process(self._options.command, environment, self._options.log_of(name))
        self._workers.append(Worker(process, name, index, is_server=is_server))

    def _update_server(self) -> None:
        """Start or end this node's server, as the agents agree."""
        server = next((worker for worker in self._workers if worker.is_server), None)
        is_alone = server is not None and len(self._workers) == 1 and not self._missing and not self._unreported
        wanted = self._server_duty.look(is_alone=is_alone)
        if server is not None and wanted is Hosting.END:
            self._ask_to_leave(server)
        may_start = server is None and len(self._failures) <= self._options.max_restarts
        if wanted is Hosting.RUN and may_start:
            self._start(0, is_server=True)

    def _look_at_ranks(self, ranks: ScriptRanks) -> None:
        """Let there be a script that is rank 0, or none at all where scripts of this form cannot be adopted."""
        if self._directory.why_not_adopted() is not None:
            self._kill_all()
            return
        replaced = ranks.look([worker.name for worker in self._workers])
        for worker in self._workers:
            if worker.name == replaced and replaced not in self._successor_of:
                self._start(worker.index)
                self._successor_of[replaced] = self._workers[-1]
        current = self._directory.view().current if self._successor_of else ()
        for worker in self._workers:
            successor = self._successor_of.get(worker.name)
            if successor is not None and successor.name in current:
                self._ask_to_leave(worker)

    def _environment(self, name: str, index: int, *, is_server: bool) -> Mapping[str, str]:
        environment = {
            TRAINER_VARIABLE: str(self._directory.root),
            MEMBER_VARIABLE: name,
            AGENT_VARIABLE: self.id,
            REPLICA_VARIABLE: self._replica,
            LOCAL_RANK_VARIABLE: str(index),
            LOCAL_WORLD_SIZE_VARIABLE: str(self._options.nproc),
        }
        if gpus := count_gpus():
            # Accelerate would take the first one in each worker.
            environment["ACCELERATE_TORCH_DEVICE"] = f"cuda:{index % gpus}"
        if self._options.nproc > 1 and "OMP_NUM_THREADS" not in os.environ:
            # Each of several workers taking all cores is slower by far.
            environment["OMP_NUM_THREADS"] = "1"
        if self._script_ranks is not None:
            environment |= self._script_ranks.environment(name, index)
        if is_server:
            # It adds up in the computer's memory, and the node's GPUs are its workers'.
            environment |= {SERVER_VARIABLE: "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        return environment

    def _note_end(self, worker: Worker, status: int) -> None:
        self._workers.remove(worker)
        self._unreported.append((worker, status))
        if status == ExitCode.STATE_IO:
            self._unusable = f"worker {worker.name} could not use the trainer's directory, see its own message"
        if self._leaving is not None or worker.asked_to_leave_s is not None or worker.ends_with_replica:
            return
        if status == 0:
            self._never_joined += not self._was_member(worker)
            return
        if status == NOT_ADOPTED_STATUS:
            return
        if self._broken and self._is_bound():
            return
        why = "given up for lost" if status == EVICTED_STATUS else describe(status)
        if status == -signal.SIGKILL:
            why += " (which the system sends when memory runs out: ask for more of it, or take smaller batches)"
        if status == ODD_STATUS:
            why += ": it differs from the others, as its own message says, and another in its place would, too"
        self._broken = True
        self._failures.append(f"{worker.name}: {why}")
        log.warning("worker %s failed: %s", worker.name, why)

    def _report_ended(self) -> None:
        """Record ended workers at once, so that no collective waits for their heartbeats; then replace them."""
        while self._unreported:
            worker, status = self._unreported[0]
            is_to_be_replaced = self._leaving is None and self._may_be_replaced(worker, status)
            try:
                self._directory.mark_gone(worker.name, describe(status))
            except DirectoryError as error:
                # In a full directory no worker could join, and the others may train on.
                self._warn_once(error)
                return
            del self._unreported[0]
            if is_to_be_replaced:
                self._missing.append(worker.index)
        missing = self._missing if self._leaving is None else []
        if missing and self._is_bound():
            if self._workers:
                return
            self._start_all()
        else:
            for index in missing:
                self._start(index)
        self._missing = []

    def _may_be_replaced(self, worker: Worker, status: int) -> bool:
        """Whether another one in its place could do better: it had joined, had room, and was like the others."""
        return (
            not worker.is_server
            and status not in (0, ExitCode.STATE_IO, ODD_STATUS, NOT_ADOPTED_STATUS)
            and worker.asked_to_leave_s is None
            and len(self._failures) <= self._options.max_restarts
            and self._was_member(worker)
        )

    def _warn_once(self, error: DirectoryError) -> None:
        """Warn once, however often it is tried again."""
        if error.what != self._complaint:
            self._complaint = error.what
            log.warning("%s %s", error.what, error.hint)

    def _was_member(self, worker: Worker) -> bool:
        """Whether it got as far as joining: a script that fails before would fail again."""
        # A worker that left, or was given up by the others, had joined; its record may be removed by now.
        directory = self._directory
        return worker.name in directory.view().members or directory.is_gone(worker.name) is not None

    def _kill_if_overdue(self, worker: Worker) -> None:
        """Kill a worker that the others gave up, or that does not get to a step boundary in time."""
        now_s = time.monotonic()
        # The watcher has two such reasons, no sign of life and none of progress. A worker that left by itself may
        # take its time over what follows the loop.
        if worker.given_up_s is None and (self._directory.is_gone(worker.name) or "").startswith("no sign of"):
            worker.given_up_s = now_s
        is_late = _is_past(worker.asked_to_leave_s, self._options.end_timeout_s, now_s)
        if is_late or _is_past(worker.given_up_s, _GONE_BUT_ALIVE_S, now_s):
            self._killed += is_late and not worker.is_server and worker.poll() is None
            worker.kill()

    def _ask_to_leave(self, worker: Worker) -> None:
        if worker.asked_to_leave_s is not None:
            return
        worker.asked_to_leave_s = time.monotonic()
        try:
            self._directory.leave(worker.name)
        except DirectoryError as error:  # it cannot be asked, and is killed when its time is up
            self._warn_once(error)
        # It has no step to come to the end of, and would not look for the request.
        if not self._was_member(worker):
            worker.kill()

    def _serve_requests(self) -> None:
        for path, request in self._directory.requests():
            if request.get("do") == "grow" and not self._is_bound() and self._directory.claim(path):
                used = {worker.index for worker in self._workers if not worker.is_server}
                # The lowest place that is free, as the place says which GPU a worker has.
                self._start(min(set(range(len(used) + 1)) - used))
            elif request.get("do") == "kill":
                for worker in self._workers:
                    if worker.name == request.get("member") and self._directory.claim(path):
                        worker.kill()

    def _has_lost_steps(self) -> bool:
        """Whether workers were killed whose steps are in no memory, and in no checkpoint since then."""
        if not self._killed or self._directory.view().current:
            return False
        written_s = [path.stat().st_mtime for path in self._directory.checkpoints.glob("step-*")]
        return max(written_s, default=0.0) < self._leaving_since_s

    def _report(self, state: str, reason: str) -> None:
        self._directory.write_agent(
            self.id, {"state": state, "reason": reason, "pid": os.getpid(), "time_s": time.time()}
        )

    def _ending(self) -> AgentEnd:
        is_complete = self._directory.finished_path.exists()
        if self._unreported:
            self._unusable = f"the trainer's directory {self._directory.root} cannot be written"
        if self._unusable and not is_complete:
            return AgentEnd(ExitCode.STATE_IO, self._unusable)
        reason = self._directory.why_not_adopted() if self._script_ranks is not None else None
        # A script that finds its own last snapshot has nothing to do.
        if reason is not None and self._leaving is None and not is_complete:
            return AgentEnd(NOT_ADOPTED_STATUS, reason)
        if self._leaving is not None and self._has_lost_steps():
            return AgentEnd(
                1,
                f"left on {self._leaving}; {self._killed} workers had not come to the end of a step within "
                f"{self._options.end_timeout_s:g} s (--leave-timeout) and were killed: with nobody else there, "
                "what they had trained since the newest checkpoint is lost",
            )
        if self._leaving is not None:
            return AgentEnd(0, f"left on {self._leaving}; the training can go on without this node")
        if is_complete:
            return AgentEnd(0, "the training is complete")
        if self._failures:
            view = self._directory.view()
            hint = "" if view.members or view.gone else f"; {_FOR_TORCHRUN}"
            return AgentEnd(
                1, f"{len(self._failures)} of {self._started} workers failed, last {self._failures[-1]}{hint}"
            )
        if self._never_joined:
            return AgentEnd(1, f"{_FOR_TORCHRUN}. It ended with status 0")
        return AgentEnd(0, "all workers left, as asked")


def _is_past(since_s: float | None, patience_s: float, now_s: float) -> bool:
    return since_s is not None and now_s - since_s > patience_s


class ScriptRanks:
    """The ranks of adopted scripts, which keep them as long as they live.

    One living script at most is rank 0: it prints and saves for all, as scripts do. When it ends, the next worker
    that starts is rank 0; where none is about to, one is started beside the oldest, which then leaves.
    """

    def __init__(self, directory: TrainerDirectory, ranks: int, nproc: int) -> None:
        self._directory = directory
        self._ranks = ranks
        self._nproc = nproc
        self._started = 0
        self._due_s = 0.0

    def environment(self, name: str, index: int) -> Mapping[str, str]:
        """Variables that torchrun would set for this worker, the script's rank and number of ranks included."""
        is_main = self._directory.claim_main(name)
        self._started += 1
        # Any but 0 does: once it trains the script hears its rank in the world, and only rank 0 writes.
        rank = 0 if is_main else 1 + (self._started - 1) % (self._ranks - 1)
        facts = torchrun_variables(rank, self._ranks, index, self._nproc, self._directory.root.name)
        return {**facts, MAIN_VARIABLE: "1" if is_main else ""}

    def look(self, workers: Collection[str]) -> str | None:
        """A worker of this node's that has to be replaced by one that is rank 0; None: none has."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return None
        self._due_s = now_s + _RANKS_EVERY_S
        # The oldest worker's agent does it, so that only one acts.
        first = next(iter(self._directory.view().current), "")
        is_needed = not self._directory.finished_path.exists() and self._directory.has_lost_main()
        return first if first in workers and is_needed else None
