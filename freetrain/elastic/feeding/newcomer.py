"""The newcomer's side: it takes in the training's state while the others train on."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from freetrain.elastic.feeding.feeder import STEP_BYTES
from freetrain.elastic.feeding.link import FeedError, Link, LinkLostError, Listener, SharedMemory
from freetrain.elastic.feeding.parts import Packet, StateParts
from freetrain.elastic.membership.session import Session
from freetrain.elastic.on_disk.next_generation import View
from freetrain.elastic.training.state import TrainingState

log = logging.getLogger(__name__)

_LOOK_S = 0.02
_FIRST_LOOK_S = 10.0
_SOURCE_SEEN_LOST_S = 1.0
_MAX_SOURCES = 10

# Tensors of a parameter's size that an optimizer here keeps for it, and the parameter itself, at most.
_MAX_TENSORS_PER_VALUE = 4


class Newcomer:
    """One worker before its first world.

    Attributes:
        is_mixed: whether it has some of the training's state, and not all.
    """

    def __init__(self, state: TrainingState, session: Session) -> None:
        self.is_mixed = False
        self._state = state
        self._session = session
        self._is_whole = False
        self._is_ready = False

    def follow(self) -> bool:
        """Be fed until a world takes it in, if there is one to join; True if it then has the state of that world.

        Its own state is to be replaced otherwise.
        """
        session = self._session
        if not session.member.is_fed:
            return False
        session.wait_for(lambda view: session.member.id in view.members, _FIRST_LOOK_S)
        try:
            if session.view.current:
                with self._memory() as memory:
                    self._be_fed(memory)
        except FeedError as error:
            log.warning("not fed by another member (%s): the state comes by broadcast, while all wait", error)
        self._say_ready()
        self.is_mixed = self.is_mixed and not self._is_whole
        return self._is_whole

    def _be_fed(self, memory: SharedMemory) -> None:
        """Be fed by one member, or by another if that one is lost."""
        for attempt in itertools.count():
            view = self._session.view
            if not self._sources(view) or self._is_decided(view):
                return
            source = self._choose_source(view)
            try:
                self._be_fed_by(source, attempt, memory)
            except LinkLostError as error:
                # Once ready it may be taken into a world at any moment: there is no time for another source.
                if self._is_ready or attempt == _MAX_SOURCES:
                    raise
                log.info("fed no more (%s): trying another member", error)
                self._await_loss(source)
            else:
                return

    def _be_fed_by(self, source: str, attempt: int, memory: SharedMemory) -> None:
        link = self._await_source(source, attempt, memory)
        if link is None:
            return
        try:
            self._take_all(link, source, Packet(memory.memory))
        finally:
            link.close()

    @contextlib.contextmanager
    def _memory(self) -> Iterator[SharedMemory]:
        """Room for all gradients and for some of the state."""
        parts = StateParts(self._state)
        largest = max(parts.size_bytes(index) for index in range(len(parts)))
        memory = SharedMemory(parts.gradient_bytes + max(STEP_BYTES, _MAX_TENSORS_PER_VALUE * largest))
        try:
            yield memory
        finally:
            memory.close()

    def _choose_source(self, view: View) -> str:
        """A source with the same shard: another for each newcomer, and rank 0, which is busiest, last."""
        me = self._session.member
        fed = [id_ for id_ in view.outside if view.members[id_].is_fed and view.members[id_].shard == me.shard]
        place = fed.index(me.id) if me.id in fed else 0
        lasting = self._sources(view)
        return lasting[-1 - place % len(lasting)]

    def _sources(self, view: View) -> list[str]:
        """The members of the present world that do not leave it, and have the shard that this one is to have."""
        shard = self._session.member.shard
        known = view.members
        return [id_ for id_ in _lasting(view) if id_ in known and known[id_].shard == shard]

    def _await_source(self, source: str, attempt: int, memory: SharedMemory) -> Link | None:
        session = self._session
        listener = Listener(session.member, session.directory.secret, memory)
        try:
            session.directory.offer_feed(session.member.id, attempt, asdict(listener.offer(source)))
            while not self._is_decided(session.view):
                link = listener.accept(_LOOK_S, lambda: self._is_lost(source))
                if link is not None:
                    return link
                if self._is_lost(source):
                    raise LinkLostError(f"{source} has gone")
                if session.member.id in session.view.ready:
                    raise FeedError(f"{source} does not reach this process")
            return None
        finally:
            listener.close()

    def _take_all(self, link: Link, source: str, packet: Packet) -> None:
        """Take what comes until the source says that it was all."""
        parts = StateParts(self._state)
        while not self._is_out(self._session.view):
            message = link.receive(_LOOK_S)
            if message is None:
                if self._is_lost(source):
                    raise LinkLostError(f"{source} has gone")
                continue
            if message["kind"] == "end":
                if message["why"]:
                    raise FeedError(message["why"])
                if not self._is_whole:
                    raise LinkLostError(f"{source} has left")
                return
            self._take(message, parts, packet, link)

    def _take(self, message: dict[str, Any], parts: StateParts, packet: Packet, link: Link) -> None:
        if message["kind"] == "update":
            # Until the rest comes again, schedules and positions are those before this update.
            self._is_whole = False
            parts.update(message, packet)
        else:
            self._take_state(message, parts, packet)
        link.say_done()

    def _take_state(self, message: dict[str, Any], parts: StateParts, packet: Packet) -> None:
        if message["layout"] != parts.layout:
            raise FeedError("the source trains other parameters, or in other groups, than the script at its start")
        self.is_mixed = True
        for part in message["parts"]:
            parts.take(part, packet)
        if message["rest"] is not None:
            self._state.restore_rest(message["rest"])
            self._is_whole = True
            self._say_ready()

    def _say_ready(self) -> None:
        """The next world may take it in."""
        if not self._is_ready:
            self._is_ready = True
            self._session.directory.say_ready(self._session.member.id)

    def _await_loss(self, source: str) -> None:
        """Wait until the others see this member's end."""
        # The end of a connection is seen first: asked again at once, the same member would be chosen.
        self._session.wait_for(lambda view: source not in _lasting(view), _SOURCE_SEEN_LOST_S)

    def _is_lost(self, source: str) -> bool:
        return source in self._session.view.gone

    def _is_decided(self, view: View) -> bool:
        """Whether a world takes it in, or none ever will."""
        return self._session.member.id in view.ranks or self._is_out(view)

    def _is_out(self, view: View) -> bool:
        me = self._session.member.id
        return me in view.gone or me in view.refused or me in view.leaving


def _lasting(view: View) -> tuple[str, ...]:
    """The members of the present world that do not leave it."""
    return tuple(id_ for id_ in view.current if id_ not in view.leaving)
