"""How far one newcomer has been fed, and what it is sent next."""

from __future__ import annotations

import mmap
from typing import Any

from freetrain.elastic.feeding.errors import FeedError
from freetrain.elastic.feeding.link import Link
from freetrain.elastic.feeding.packets import Packet, size_of
from freetrain.elastic.feeding.parts import Parts
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
        self._awaits_done = False
        self._versions = self._parts.versions()

    def send_update(self) -> None:
        """The gradients with which the optimizer is about to step, of what has arrived.

        Raises:
            FeedError: that cannot be.
        """
        self._check_versions()
        self._await_done()
        self._packet.used_bytes = 0
        gradients = self._parts.put_gradients(self._arrived, self._packet)
        self._send(0, kind="update", groups=hyperparameters(self._state.optimizer), gradients=gradients)

    def note_update(self) -> None:
        """The optimizer has stepped."""
        self._versions = self._parts.versions()

    def send_state(self) -> None:
        """Some more parameters; with the last ones, and from then on, the rest.

        Raises:
            FeedError: that cannot be.
        """
        self._check_versions()
        rest = self._state.capture_rest()
        if size_of(rest) > _MOST_REST_BYTES:
            raise FeedError("buffers, or what is in also={...}, are large")
        start = self._packet.used_bytes
        parts = []
        while self._arrived < len(self._parts) and self._fits(start):
            parts.append(self._parts.put(self._arrived, self._packet))
            self._arrived += 1
        is_whole = self._arrived == len(self._parts)
        self._send(start, kind="state", parts=parts, rest=rest if is_whole else None)
        self._awaits_done = True

    def end(self) -> None:
        """The newcomer needs no more, or gets no more."""
        self._link.send({"kind": "end", "why": ""})
        self._link.close()

    def refuse(self, why: str) -> None:
        """The newcomer cannot be fed."""
        self._link.send({"kind": "end", "why": why})
        self._link.close()

    def _fits(self, start: int) -> bool:
        """Whether one more is to be sent after this step: the first one always."""
        size_bytes, spent = self._parts.size_bytes(self._arrived), self._packet.used_bytes - start
        if not spent and size_bytes > self._packet.room_bytes:
            raise FeedError("the newcomer has no room for what the optimizer keeps for a parameter")
        return not spent or spent + size_bytes <= min(STEP_BYTES, spent + self._packet.room_bytes)

    def _await_done(self) -> None:
        if self._awaits_done:
            self._link.await_done()
            self._awaits_done = False

    def _check_versions(self) -> None:
        if self._versions != self._parts.versions():
            raise FeedError("something besides the optimizer changes parameters, or what it knows of them")

    def _send(self, start: int, **document: Any) -> None:
        self._link.send(document, start, self._packet.used_bytes)
