"""One worker's membership in a trainer: from boot over any number of worlds to goodbye."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType

import torch

from freetrain.elastic.errors import (
    EVICTED_STATUS,
    AbandonedError,
    BrokenWorldError,
    Departed,
    DirectoryError,
    ForeignTrainerError,
)
from freetrain.elastic.membership.identity import (
    AGENT_VARIABLE,
    FOREIGN_HINT,
    this_member,
    use_interface_of_this_address,
    why_foreign,
    why_foreign_to,
)
from freetrain.elastic.membership.watcher import Watcher, WorkerProgress
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.on_disk.next_generation import Proposal, View
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.worlds.guarded_store import SERVICE_HOST, StoreServer
from freetrain.elastic.worlds.replica import this_replica
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

log = logging.getLogger(__name__)

# A world that fails although nobody is missing is reported after this time: losses are found sooner.
_BROKEN_AFTER_S = 1.0
_REPORT_AGAIN_S = 10.0
_WARN_WAITING_AFTER_S, _WARN_WAITING_AGAIN_S = 30.0, 60.0
# A worker that is asked to leave waits so long for the others to end the step with it, as a slow step may be.
_LEAVES_WAITING_AFTER_S = 5.0
# Longer than a large checkpoint takes on a slow file system; a worker that hangs keeps nobody for ever.
_LEAVERS_WRITE_S = 3600.0
_MAX_NAMED = 4
_NOBODY_MISSING = "its collectives failed with nobody missing"
# Worlds in a row. A newcomer gives up first: if the fault is its own, the others go on without it.
_MAX_BROKEN_OF_A_NEWCOMER, _MAX_BROKEN_OF_A_VETERAN = 3, 6
_BROKEN_HINT = (
    "If it is about an address or a connection, see whether the nodes reach each other (FREETRAIN_ADDRESS, "
    "GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME); otherwise, whether the backend can sum and broadcast all of the "
    "model's tensors."
)
_SERVICE_VARIABLE = "FREETRAIN_SERVICE"
# Members form a world meanwhile, so a service that hangs must not hold them up for long.
_SERVICE_PATIENCE_S = 2.0
_AGENTS_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class Session:
    """Joins, forms worlds, leaves; a worker that is fed gets the state before it joins a world."""

    def __init__(
        self,
        directory: TrainerDirectory,
        timeouts: Timeouts,
        device: torch.device,
        fingerprint: str,
        *,
        is_fed: bool = False,
    ) -> None:
        self.directory = directory
        mine = this_replica()
        me = this_member(fingerprint, torch.__version__)
        self.member = replace(me, is_fed=is_fed, replica=mine.name, shard=mine.shard, shards=mine.shards)
        self.world: World | None = None
        self.nodes = 0
        self._was_in_a_world = False
        self._timeouts = timeouts
        self._device = device
        self._stores = Stores(self.member.address, directory.secret.derive)
        self._last_error = _NOBODY_MISSING
        self._breaks = BrokenWorlds()
        self._warn_waiting_s = _WARN_WAITING_AFTER_S
        self._leaving_since_s = 0.0
        fits = partial(why_foreign, self.member)
        self._watcher = Watcher(directory, self.member, timeouts, self._stores.open, fits)

    @property
    def view(self) -> View:
        """The watcher's last view."""
        return self._watcher.view

    @property
    def change_due(self) -> bool:
        """Whether a newer generation waits for this world to end."""
        return self.world is None or self.view.number > self.world.generation.number

    def wait_for(self, condition: Callable[[View], bool], timeout_s: float) -> bool:
        """Sleep until the view fulfils the condition; False at the end of the time."""
        return self._watcher.wait_for(condition, timeout_s)

    def join(self) -> None:
        """Record that this worker is ready, and begin to watch."""
        reason = why_foreign_to(self.directory.view(), self.member)
        if reason is not None:
            raise ForeignTrainerError(
                f"this process cannot join the trainer in {self.directory.root}: {reason}.", FOREIGN_HINT
            )
        _named_service()  # complains here rather than in the watcher's thread
        use_interface_of_this_address()
        leave_signals_to_agent()
        # A sign of life first: others that see the record may look for one at once.
        self.directory.beat(self.member.id, -1)
        self.directory.join(self.member)
        self._watcher.start()

    def reform(
        self, broke_with: BaseException | None, step: int, on_generation: Callable[[Generation], object]
    ) -> World:
        """Leave the present world, if any, and form the next one that this worker is part of.

        Args:
            broke_with: reason why the present world does not hold; None if it changes as planned.
            step: the last completed step.
            on_generation: called with the one to form, before this worker waits for others.
        """
        tried = self.world.generation.number if self.world else 0
        self.leave_world()
        while True:
            generation = self._await_generation(tried)
            self._breaks.count(broke_with, generation.cause, step)
            tried = generation.number
            on_generation(generation)
            # Also before an attempt that fails: a member that still waits at an old store then moves on.
            self._stores.drop(before=tried)
            try:
                return self._form(generation)
            except AbandonedError as error:
                log.info("generation %d abandoned: %s", tried, error)
                self._last_error = f"it did not form: {error}"
                # None if it was cut, which does not count as a world that breaks by itself.
                broke_with = error.__cause__
                self._watcher.guard(None)

    def _form(self, generation: Generation) -> World:
        """The world of this generation, watched from the beginning; raises AbandonedError if it does not come."""
        word = self.directory.secret.derive(generation.nonce)
        timeout_s = self._timeouts.form_timeout_s
        callbacks = self._stores.ports, self._while_waiting, self._expel
        world = World(generation, self.member.id, word, self._device, timeout_s, *callbacks)
        self._watcher.guard(world)
        world.form(lambda: self.view.number > generation.number)
        self.world = world
        self._was_in_a_world = True
        known = self.view.members
        # Agents of the ranks; a rank without one stands for itself.
        self.nodes = len({(known[id_].agent if id_ in known else "") or id_ for id_ in generation.members})
        self._last_error = _NOBODY_MISSING
        return world

    def _expel(self, member: str, reason: str) -> None:
        """A member of the world differs from the others; it ends by itself, if it can."""
        log.warning("%s is ended: %s", member, reason)
        with contextlib.suppress(DirectoryError):
            self.directory.mark_gone(member, reason)

    def _while_waiting(self, waited_s: float) -> None:
        """Warn of a long wait in a collective; raises Departed if this worker is to leave, and it does not end."""
        if waited_s < _WARN_WAITING_AFTER_S:
            self._warn_waiting_s = _WARN_WAITING_AFTER_S
        elif self.world is not None and waited_s >= self._warn_waiting_s:
            self._warn_waiting_s += _WARN_WAITING_AGAIN_S
            log.warning("waiting for %.0f s, in %s: %s", waited_s, self.world.awaits, self._behind(self.world))
        is_leaving = self.member.id in self.view.leaving
        # Moves along until it is asked to leave: the difference is then the time since.
        self._leaving_since_s = self._leaving_since_s if is_leaving else waited_s
        if is_leaving and waited_s - self._leaving_since_s > _LEAVES_WAITING_AFTER_S:
            raise Departed(
                "left, as asked, in the middle of a step for which the others did not come", in_step=True
            )

    def _behind(self, world: World) -> str:
        """The ranks that have not come to this worker's place, in words."""
        members = world.generation.members
        progress = {id_: WorkerProgress.of(self.directory.last_beat(id_)) for id_ in members}
        missing = [id_ for id_ in members if progress[id_].started < world.started and id_ != self.member.id]
        named = [f"rank {members.index(id_)} ({id_})" for id_ in missing[:_MAX_NAMED]]
        more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
        hint = (
            f"a rank that does nothing for {self._timeouts.hung_after_s:g} s is given up (FREETRAIN_HUNG_AFTER_S)"
        )
        return f"{', '.join(named) or 'somebody'}{more} has not come there; {hint}"

    def leave_world(self) -> None:
        """Leave the present world; the process lives on."""
        self._watcher.guard(None)
        if self.world is not None:
            self.world.leave()
            self.world = None

    def say_goodbye(self, reason: str) -> None:
        """Leave for good."""
        self.leave_world()
        with contextlib.suppress(DirectoryError):  # the others see it in the process table, or by its silence
            self.directory.mark_gone(self.member.id, reason)
        self._watcher.stop()

    def is_last_of(self, world: World) -> bool:
        """Whether no worker of this world goes on, and it is this one's turn, or its replica's, to save it."""
        view = self.view
        old = [id_ for id_ in world.generation.members if id_ not in view.gone]
        first = view.members.get(old[0]) if old else None
        is_first = first is not None and (first.replica or first.id) == (self.member.replica or self.member.id)
        return not self.goes_on(world) and is_first

    def goes_on(self, world: World) -> bool:
        """Whether some worker of this world stays."""
        return not set(world.generation.members).isdisjoint(self.view.staying)

    def wait_for_leavers(self) -> None:
        """Wait until no member is left that may still be writing the last checkpoint."""
        self._watcher.wait_for(
            lambda view: not (view.leaving & view.members.keys()) - view.gone.keys() - {self.member.id},
            _LEAVERS_WRITE_S,
        )

    def _await_generation(self, tried: int) -> Generation:
        """The next generation with this worker in it."""
        deadline_s = time.monotonic() + self._timeouts.start_timeout_s
        report_due_s = 0.0
        self._watcher.hurry()
        while not self._watcher.wait_for(lambda view: self._decided(view, tried), _BROKEN_AFTER_S):
            self._depart_if_complete()
            # Nobody is missing and nothing newer comes: all have to know that this world does not work.
            may_report = tried and self.view.number == tried and not self.member.is_server
            if may_report and time.monotonic() >= report_due_s:
                report_due_s = time.monotonic() + _REPORT_AGAIN_S
                with contextlib.suppress(DirectoryError):  # the watcher says so, and this is tried again
                    self.directory.report_broken(tried, self._last_error)
            if time.monotonic() > deadline_s:
                raise ForeignTrainerError(
                    f"no world formed within {self._timeouts.start_timeout_s:g} s.",
                    "Look whether enough members joined (--min) and whether their hosts reach each other.",
                )
        view, me = self.view, self.member.id
        if me in view.refused:
            raise ForeignTrainerError(
                f"the trainer in {self.directory.root} refuses this process: {view.refused[me]}.", FOREIGN_HINT
            )
        if me in view.gone:
            raise Departed(f"given up for lost by the others: {view.gone[me]}", EVICTED_STATUS)
        if view.number == tried or me not in view.everyone:
            raise Departed("left at a step boundary, as asked")
        # Once more: the training may have been completed while this worker waited.
        self._depart_if_complete()
        assert view.generation is not None
        return view.generation

    def _depart_if_complete(self) -> None:
        """A newcomer has nothing to do where all is done, and the workers that did it do not wait for it."""
        if self.member.is_server and self.directory.finished_path.exists():
            raise Departed("the training is complete")
        if not self._was_in_a_world and self.directory.finished_path.exists():
            log.warning("the training is complete; remove %s to go on", self.directory.finished_path)
            raise Departed("the training was complete before this worker's first step")

    def _decided(self, view: View, tried: int) -> bool:
        me = self.member.id
        if me in view.gone or me in view.refused:
            return True
        if self.member.is_server and me in view.leaving and not view.current:
            return True  # nobody is there to form a world without it
        return (me in view.everyone or me in view.leaving) and view.number > tried


class BrokenWorlds:
    """Counts the worlds in a row that broke although no member was missing, and in which no step was completed.

    A lost rank explains a broken world once. What breaks one world after the other with all members alive is a
    defect of the network, the script or this software, and forming more worlds would hide it for ever.
    """

    def __init__(self) -> None:
        self._in_a_row = 0
        self._last_step: int | None = None
        self._veteran = False

    def count(self, error: BaseException | None, cause: str, step: int) -> None:
        """Take note of a generation that follows; raises BrokenWorldError if too many broke in a row.

        ``error`` is what the world before it broke with in this process; None if it did not, or was cut.
        """
        if self._last_step is not None and step > self._last_step:
            self._veteran = True
            self._in_a_row = 0
        self._last_step = step
        if cause != "broken":
            self._in_a_row = 0
        elif error is not None:
            self._in_a_row += 1
        limit = _MAX_BROKEN_OF_A_VETERAN if self._veteran else _MAX_BROKEN_OF_A_NEWCOMER
        if error is not None and self._in_a_row >= limit:
            raise BrokenWorldError(
                f"{self._in_a_row} worlds in a row broke although no member was missing, the last one with: "
                f"{error}\n{_BROKEN_HINT}"
            ) from error


class Stores:
    """Stores that this process has opened, whose generations may still meet there.

    ``word_of`` makes of a generation's nonce what its members prove to know.
    """

    def __init__(self, address: str, word_of: Callable[[str], str]) -> None:
        self._address = address
        self._word_of = word_of
        self._stores: dict[int, StoreServer] = {}

    def open(self, proposal: Proposal) -> Generation:
        """The generation that was proposed, with a store."""
        host, address, port = this_host(), self._address, 0
        nonce = secrets.token_hex(16)
        service = _named_service()
        if service is not None:
            try:
                socket.create_connection(service, _SERVICE_PATIENCE_S).close()
            except OSError as error:
                log.warning("the store at %s:%d does not answer (%s); opening one here", *service, error)
                service = None
        if service is not None:
            host, (address, port) = SERVICE_HOST, service
        elif proposal.members:
            store = StoreServer(words=[self._word_of(nonce)])
            self._stores[proposal.number] = store
            port = store.port
        return Generation(
            proposal.number, proposal.members, host, address, port, nonce, proposal.cause, proposal.servers
        )

    def ports(self) -> list[int]:
        """Ports of the open ones."""
        # A copy, since the watcher's thread opens stores meanwhile.
        return [store.port for store in list(self._stores.values())]

    def drop(self, before: int) -> None:
        """Close those of generations before this one."""
        for number in list(self._stores):  # a copy, likewise
            if number < before:
                self._stores.pop(number).close()


def _named_service() -> tuple[str, int] | None:
    """The service that the environment names, or None; raises InputError if it does not say HOST:PORT."""
    text = os.environ.get(_SERVICE_VARIABLE, "")
    host, _, port = text.rpartition(":")
    if text and (not host or not port.isdigit()):
        raise InputError(f"{_SERVICE_VARIABLE}={text} is no address.", "Write HOST:PORT.")
    return (host, int(port)) if text else None


def leave_signals_to_agent() -> None:
    """Ignore signals that ask to leave, in a process that an agent watches: the agent says when to leave.

    Some Slurms signal every process of a step (proctrack/linuxproc), others the one that srun started alone
    (proctrack/cgroup). What the script does itself on a signal stays as it is.
    """
    if not os.environ.get(AGENT_VARIABLE) or threading.current_thread() is not threading.main_thread():
        return
    worker = os.getpid()

    def go_on(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != worker:  # forked, as by a data loader, which may end it in this way
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    # A handler, not SIG_IGN: programs that the script starts would inherit that.
    for number in _AGENTS_SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, go_on)
