"""How far one newcomer has been fed, and what it is sent next."""

from __future__ import annotations

import mmap
from typing import Any

from freetrain.elastic.feeding.errors import FeedError
from freetrain.elastic.feeding.link import Link, let_go
from freetrain.elastic.feeding.packets import Packet, size_of
from freetrain.elastic.feeding.parts import Parts
from freetrain.elastic.training.skeleton import Contents, hollow
from freetrain.elastic.training.state import TrainingState, hyperparameters

STEP_BYTES = 128 << 20
"""So much of the state is sent after each step, or one parameter: copying it takes some hundredths of a second."""

_MOST_REST_BYTES = 8 << 20
"""The rest is sent after each step once all parameters are there."""


class Feed:
    """The source's books on one newcomer.

    Args:
        state: of the training.
        link: to the newcomer.
        memory: that it reads from.
    """

    def __init__(self, state: TrainingState, link: Link, memory: mmap.mmap) -> None:
        self._state = state
        self._parts = Parts(state)
        self._link = link
        self._packet = Packet(memory)
        self._arrived = 0
        self._unread = 0
        self._versions = self._parts.versions()

    def send_update(self, place: int) -> None:
        """The gradients with which the optimizer of this place is about to step, of what has arrived.

        An optimizer that has none does nothing, there as here.

        Raises:
            FeedError: that cannot be.
        """
        self._check_versions()
        self._await_read()
        self._packet.used_bytes = 0
        optimizer = self._state.optimizers[place]
        gradients = self._parts.put_gradients(place, self._arrived, self._packet)
        if gradients and hasattr(optimizer, "found_inf"):
            raise FeedError("a GradScaler leaves it to the optimizer itself to look for infinite gradients")
        if gradients:
            groups = hyperparameters(optimizer)
            self._send(0, kind="update", place=place, groups=groups, gradients=gradients)

    def note_update(self) -> None:
        """The optimizer has stepped."""
        self._versions = self._parts.versions()

    def send_state(self) -> None:
        """Some more parameters; with the last ones, and from then on, the rest.

        Raises:
            FeedError: that cannot be.
        """
        self._check_versions()
        if Parts(self._state).layout != self._parts.layout:
            raise FeedError("the script has changed which parameters it trains, or in which groups")
        rest = self._state.capture_rest()
        if size_of(rest) > _MOST_REST_BYTES:
            raise FeedError("buffers, or what is in also={...}, are large")
        contents = Contents()
        hollow(rest, contents)
        if contents.shards:
            raise FeedError("something in also={...} is sharded")
        start = self._packet.used_bytes
        parts = []
        while self._arrived < len(self._parts) and self._fits(start):
            parts.append(self._parts.put(self._arrived, self._packet))
            self._arrived += 1
        is_whole = self._arrived == len(self._parts)
        self._send(start, kind="state", parts=parts, rest=rest if is_whole else None, layout=self._parts.layout)

    def end(self, why: str = "") -> None:
        """The newcomer needs no more, or gets no more; or it cannot be fed, and why."""
        self._link.send({"kind": "end", "why": why})
        self._link.close()
        held = [self._link, self._packet]
        del self._link, self._packet
        let_go(held)

    def _fits(self, start: int) -> bool:
        """Whether one more is to be sent after this step: the first one always."""
        size_bytes, spent = self._parts.size_bytes(self._arrived), self._packet.used_bytes - start
        if not spent and size_bytes > self._packet.room_bytes:
            raise FeedError("the newcomer has no room for what the optimizer keeps for a parameter")
        return not spent or spent + size_bytes <= min(STEP_BYTES, spent + self._packet.room_bytes)

    def _await_read(self) -> None:
        """What was sent lies in the memory that is filled anew."""
        while self._unread:
            self._link.await_done()
            self._unread -= 1

    def _check_versions(self) -> None:
        if self._versions != self._parts.versions():
            raise FeedError("something besides the optimizer changes parameters, or what it knows of them")

    def _send(self, start: int, **document: Any) -> None:
        self._link.send(document, start, self._packet.used_bytes)
        self._unread += 1
