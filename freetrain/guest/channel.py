"""The channel of host and guest: whole messages over a socket, each within a time; the report on a question."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_LENGTH = struct.Struct("!Q")
_AT_ONCE = 1 << 20

LONGEST_S = 86_400.0
"""Longest wait, in seconds, as sockets know no endless timeout."""


class Channel:
    """Sends and receives messages of any length, each after its length, over a stream socket that it owns."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unread = bytearray()

    def send(self, message: bytes, until_s: float | None = None) -> None:
        """Send a message until this time by ``time.monotonic``; None: however long it takes.

        Raises:
            TimeoutError: the other side did not take all of it in time.
            OSError: there is no other side any more.
        """
        self._wait_at_most(until_s)
        self._socket.sendall(_LENGTH.pack(len(message)) + message)

    def receive(self, until_s: float | None = None) -> bytes:
        """The next message, waited for until this time by ``time.monotonic``; None: for ever.

        Raises:
            TimeoutError: not all of it came in time.
            EOFError: the other side has closed the channel.
            OSError: there is no other side any more.
        """
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size, until_s))
        return self._take(length, until_s)

    def close(self) -> None:
        """Close it; the other side reads an end."""
        self._socket.close()

    def _take(self, length: int, until_s: float | None) -> bytes:
        while len(self._unread) < length:
            self._wait_at_most(until_s)
            piece = self._socket.recv(_AT_ONCE)
            if not piece:
                raise EOFError
            # A piece may hold more than this message: the rest stays for the next one.
            self._unread += piece
        taken = bytes(self._unread[:length])
        del self._unread[:length]
        return taken

    def _wait_at_most(self, until_s: float | None) -> None:
        if until_s is None:
            self._socket.settimeout(None)
            return
        left_s = until_s - time.monotonic()
        # A timeout of 0 would make the socket non-blocking instead.
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(min(left_s, LONGEST_S))


class QuestionEnd(StrEnum):
    """Outcome of a question to a guest."""

    ANSWERED = "answered"
    RAISED = "raised"
    """The function raised an exception, or what it answered cannot be sent or read."""
    TOO_LATE = "too late"
    """The deadline came first, and the process was killed."""
    DIED = "died"
    """The process ended by itself or was killed from outside."""
    NOT_STARTED = "not started"
    """There is no process; the question was not asked."""


@dataclass(frozen=True, slots=True)
class GuestReport:
    """The outcome of a question to a guest."""

    ending: QuestionEnd
    answer: Any
    message: str  # what happened otherwise, as the rest of a sentence that begins with the guest's name
    took_s: float  # wall seconds from the question to its end; the process's start counts only where it failed
