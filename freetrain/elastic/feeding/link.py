"""The connection between a source and a newcomer: messages, and a memory that both see or that travels along."""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import secrets
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freetrain.elastic.on_disk.members import Member, Secret, this_host
from freetrain.elastic.worlds.exchange import decode, encode

# Length of the document; place and length of the bytes of the memory that follow it.
_HEAD = struct.Struct("!QQQ")
# A peer whose host has died closes nothing: between slices the reader asks whether it is known to be lost.
_SLICE_S = 0.05
_DONE = b"\x01"
# Patience for a connection and its first words: both sides are awake.
_CONNECT_TIMEOUT_S = 5.0


class FeedError(Exception):
    """Something cannot be fed; the text names it."""


class LinkLostError(FeedError):
    """The connection has ended; with another member it may go better."""


class Link:
    """One end of a connection; the other one may be known to be lost before that shows it."""

    def __init__(
        self, connection: socket.socket, memory: mmap.mmap, given_up: Callable[[], bool], *, is_seen: bool = False
    ) -> None:
        # Each end waits for small messages of the other: Nagle's algorithm would hold them back.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._memory = memoryview(memory)
        self._given_up = given_up
        self._is_seen = is_seen  # by the other end, so that nothing of the memory has to travel
        self._unsent: queue.SimpleQueue[bytes | memoryview | None] = queue.SimpleQueue()
        self._sender: threading.Thread | None = None

    def send(self, document: dict[str, Any], start: int = 0, stop: int = 0) -> None:
        """Send a document and these bytes of the memory, meanwhile; they must not change before it is done."""
        content = encode(document)
        stop = start if self._is_seen else stop
        self._unsent.put(_HEAD.pack(len(content), start, stop - start) + content)
        if stop > start:
            self._unsent.put(self._memory[start:stop])
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_all, name="freetrain-feeder", daemon=True)
            self._sender.start()

    def receive(self, wait_s: float) -> dict[str, Any] | None:
        """The next document, its bytes in their place; None if none comes in this time; raises LinkLostError."""
        if not is_readable(self._connection, wait_s):
            return None
        length, start, count = _HEAD.unpack(self._read(bytearray(_HEAD.size)))
        content = self._read(bytearray(length))
        if count:
            self._read(self._memory[start : start + count])
        document: dict[str, Any] = decode(bytes(content), "cpu")
        return document

    def say_done(self) -> None:
        """Tell the other end that its memory may be filled again."""
        with contextlib.suppress(OSError):
            self._connection.sendall(_DONE)

    def await_done(self) -> None:
        """Wait for that from the other end; raises LinkLostError if it is lost."""
        self._read(bytearray(len(_DONE)))

    def close(self) -> None:
        """Send what is to be sent, and end the connection."""
        if self._sender is not None:
            self._unsent.put(None)
        else:
            self._connection.close()

    def _send_all(self) -> None:
        try:
            while (content := self._unsent.get()) is not None:
                self._connection.sendall(content)
        except OSError:
            pass  # the other end sees that it has ended
        finally:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            self._connection.close()

    def _read(self, into: Any) -> Any:
        """Fill all of it."""
        view, filled = memoryview(into), 0
        while filled < len(view):
            try:
                ready = is_readable(self._connection, _SLICE_S)
                count = self._connection.recv_into(view[filled:]) if ready else None
            except (OSError, ValueError) as error:
                raise LinkLostError(f"the connection has failed: {error}") from error
            if count == 0 or (count is None and self._given_up()):
                raise LinkLostError("the other end has gone")
            filled += count or 0
        return into


def is_readable(connection: socket.socket, wait_s: float) -> bool:
    """Whether there is something to read, or an end of it, within this time."""
    # Not select(), which cannot watch descriptors beyond 1023.
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))


class SharedMemory:
    """Memory that other processes of this machine can see, all of it there already; FeedError if it is too little.

    It has no name, so nothing is left of it when they have ended, however that was.
    """

    def __init__(self, size_bytes: int) -> None:
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        # Without swapping; beyond that the kernel ends processes, this or another one.
        if size_bytes > 1024 * int(facts["MemAvailable"].split()[0]):
            raise FeedError(f"no memory for {size_bytes / 1e6:.0f} MB")
        self.size_bytes = size_bytes
        self.descriptor = os.memfd_create("freetrain-feed", os.MFD_CLOEXEC)
        try:
            # All pages now: one that cannot be had at its first use would end the process with SIGBUS.
            os.posix_fallocate(self.descriptor, 0, size_bytes)
            self.memory = mmap.mmap(self.descriptor, size_bytes)
        except OSError as error:
            os.close(self.descriptor)
            raise FeedError(f"no memory for {size_bytes / 1e6:.0f} MB: {error.strerror}") from error

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)
        held = [self.memory]
        del self.memory
        let_go(held)


def let_go(held: list[Any]) -> None:
    """Drop the last references to what holds memory, in another thread."""
    # To free 1 GB takes a quarter of a second, and the others may be waiting for this process.
    threading.Thread(target=held.clear, name="freetrain-memory", daemon=True).start()


def memory_of(pid: int, descriptor: int, size_bytes: int) -> mmap.mmap:
    """The memory of another process of this machine; raises FeedError if it is not to be had."""
    try:
        handle = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            # /proc lets processes of the same user open what has no name.
            return mmap.mmap(handle, size_bytes)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise FeedError(f"the newcomer's memory is not to be had: {error}") from error


@dataclass(frozen=True, slots=True)
class FeedOffer:
    """A newcomer's offer to be fed: its address and memory, and the member that is to feed it."""

    source: str  # the member that it wants to be fed by
    host: str  # its machine
    address: str  # how other machines reach it
    port: int  # where it listens
    pid: int  # its process
    descriptor: int  # of its memory in that process
    size_bytes: int  # of the memory
    nonce: str  # of which both sides make the word that the source says first

    def accept(self, secret: Secret, given_up: Callable[[], bool]) -> tuple[Link, mmap.mmap]:
        """The source's end of the connection, and its memory; raises FeedError if it does not come about."""
        here = self.host == this_host()
        memory = memory_of(self.pid, self.descriptor, self.size_bytes) if here else mmap.mmap(-1, self.size_bytes)
        try:
            address = ("127.0.0.1" if here else self.address, self.port)
            connection = socket.create_connection(address, _CONNECT_TIMEOUT_S)
            # The limit was for connecting: a newcomer may take long over an update before it reads on.
            connection.settimeout(None)
            connection.sendall(_word(secret, self.nonce))
        except OSError as error:
            raise FeedError(f"the newcomer cannot be reached: {error}") from error
        return Link(connection, memory, given_up, is_seen=here), memory


class Listener:
    """A newcomer's end until its source has connected."""

    def __init__(self, me: Member, secret: Secret, memory: SharedMemory) -> None:
        self._me = me
        self._secret = secret
        self._memory = memory
        self._nonce = secrets.token_hex(16)
        self._listening = socket.create_server(("", 0))

    def offer(self, source: str) -> FeedOffer:
        """The offer to this source."""
        me, memory = self._me, self._memory
        port = self._listening.getsockname()[1]
        return FeedOffer(
            source, me.host, me.address, port, me.pid, memory.descriptor, memory.size_bytes, self._nonce
        )

    def accept(self, wait_s: float, given_up: Callable[[], bool]) -> Link | None:
        """The connection with a source that knows the word; None if none comes in this time."""
        if not is_readable(self._listening, wait_s):
            return None
        connection, _ = self._listening.accept()
        word = _word(self._secret, self._nonce)
        connection.settimeout(_CONNECT_TIMEOUT_S)
        try:
            proof = connection.recv(len(word), socket.MSG_WAITALL)
        except OSError:
            proof = b""
        if not secrets.compare_digest(proof, word):
            connection.close()
            return None
        connection.settimeout(None)
        return Link(connection, self._memory.memory, given_up)

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()


def _word(secret: Secret, nonce: str) -> bytes:
    return secret.derive(f"feed {nonce}").encode()
