"""What a newcomer that wants to be fed writes into the trainer's directory."""

from __future__ import annotations

import mmap
import secrets
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self

from freetrain.elastic.feeding.errors import FeedError
from freetrain.elastic.feeding.link import Link, SharedMemory, is_readable, memory_of
from freetrain.elastic.on_disk.members import Member, this_host
from freetrain.elastic.on_disk.secret import Secret

_PATIENCE_S = 5.0
"""For a connection to come about, and for its first words: both sides are awake."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Where a newcomer can be fed, and by whom.

    Attributes:
        source: the member that it wants to be fed by.
        host: its machine.
        address: how other machines reach it.
        port: where it listens.
        pid: its process.
        descriptor: of its memory in that process.
        size_bytes: of the memory.
        nonce: of which both sides make the word that the source says first.
    """

    source: str
    host: str
    address: str
    port: int
    pid: int
    descriptor: int
    size_bytes: int
    nonce: str

    @classmethod
    def of(cls, document: dict[str, Any] | None) -> Self | None:
        """As it was written; None if it cannot be read."""
        try:
            return cls(**(document or {}))
        except TypeError:
            return None

    def document(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)

    def accept(self, secret: Secret, given_up: Callable[[], bool]) -> tuple[Link, mmap.mmap]:
        """The source's end of the connection, and its memory.

        Raises:
            FeedError: it does not come about.
        """
        here = self.host == this_host()
        memory = memory_of(self.pid, self.descriptor, self.size_bytes) if here else mmap.mmap(-1, self.size_bytes)
        try:
            address = ("127.0.0.1" if here else self.address, self.port)
            connection = socket.create_connection(address, _PATIENCE_S)
            connection.settimeout(None)
            connection.sendall(_word(secret, self.nonce))
        except OSError as error:
            raise FeedError(f"the newcomer cannot be reached: {error}") from error
        return Link(connection, memory, given_up, is_seen=here), memory


class Listener:
    """A newcomer's end until its source has connected.

    Args:
        me: the newcomer.
        secret: the trainer's.
        memory: to be filled.
    """

    def __init__(self, me: Member, secret: Secret, memory: SharedMemory) -> None:
        self._me = me
        self._secret = secret
        self._memory = memory
        self._nonce = secrets.token_hex(16)
        self._listening = socket.create_server(("", 0))

    def offer(self, source: str) -> Offer:
        """What the source has to know."""
        me, memory = self._me, self._memory
        port = self._listening.getsockname()[1]
        return Offer(source, me.host, me.address, port, me.pid, memory.descriptor, memory.size_bytes, self._nonce)

    def accept(self, wait_s: float, given_up: Callable[[], bool]) -> Link | None:
        """The connection with who knows the word; None if nobody comes in this time."""
        if not is_readable(self._listening, wait_s):
            return None
        connection, _ = self._listening.accept()
        word = _word(self._secret, self._nonce)
        connection.settimeout(_PATIENCE_S)
        try:
            said = connection.recv(len(word), socket.MSG_WAITALL)
        except OSError:
            said = b""
        if not secrets.compare_digest(said, word):
            connection.close()
            return None
        connection.settimeout(None)
        return Link(connection, self._memory.memory, given_up)

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()


def _word(secret: Secret, nonce: str) -> bytes:
    return secret.derive(f"feed {nonce}").encode()
