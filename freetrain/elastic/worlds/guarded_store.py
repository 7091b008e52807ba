"""The store at which ranks meet: it serves only processes that prove that they know the world's own word.

Torch's TCPStore answers any process that reaches its port, lists its keys, and takes what it is given. Here both
sides prove first that they know the word, which is derived from the trainer's secret; any other connection is
closed after some bytes. A store on a service host knows no word: there the words keep trainers apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from freetrain.elastic.errors import AbandonedError
from freetrain.elastic.on_disk.members import Generation, this_host

_HEAD = struct.Struct("!I")
_PROOF_BYTES, _NONCE_BYTES = 32, 16
# Patience for a proof, and for a connection.
_PROOF_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 1 << 20
# Limit of a store's content: addresses of a few hundred bytes for each pair of ranks.
_MAX_BYTES = 64 << 20
SERVICE_HOST = "service"
"""Identity of the host of a store that no member has opened."""


class StoreServer:
    """The keys and values of the worlds that meet here; without words any is let in, with keys of its own."""

    def __init__(self, port: int = 0, words: Sequence[str] | None = None) -> None:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        # A long backlog: all ranks of a large world come at once.
        self._listening = socket.create_server(("", port), family=family, dualstack_ipv6=dual, backlog=1024)
        self.port: int = self._listening.getsockname()[1]
        self._words = None if words is None else {_name_of(word): word for word in words}
        self._values: dict[tuple[str, str], bytes] = {}
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._is_closed = False
        threading.Thread(target=self._accept, name="freetrain-store", daemon=True).start()

    def close(self) -> None:
        """Serve nobody any more."""
        with self._changed:
            self._is_closed = True
            connections = [self._listening, *self._connections]
            self._changed.notify_all()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="freetrain-store", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # Whatever a client sends ends its own connection, and nothing else.
        with connection, contextlib.suppress(Exception):
            # A connection that proves nothing must not hold its thread for ever.
            connection.settimeout(_PROOF_TIMEOUT_S)
            name = self._let_in(connection)
            if name is None:
                return
            with self._changed:
                self._connections.add(connection)
            connection.settimeout(None)
            # Each side waits for the other's small message: Nagle's algorithm would hold it back.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while (request := _receive(connection)) is not None:
                    _send(connection, {"values": _as_texts(self._answer(name, request))})
            finally:
                with self._changed:
                    self._connections.discard(connection)

    def _let_in(self, connection: socket.socket) -> str | None:
        """The name of the word that the other side knows; None: of none that is let in."""
        mine = secrets.token_bytes(_NONCE_BYTES)
        connection.sendall(mine)
        hello = _exactly(connection, _PROOF_BYTES + _NONCE_BYTES + _PROOF_BYTES)
        name, theirs, proof = (hello[:_PROOF_BYTES], hello[_PROOF_BYTES:-_PROOF_BYTES], hello[-_PROOF_BYTES:])
        if self._words is None:
            # On a service host: this store knows no word, so it can prove nothing.
            connection.sendall(bytes(_PROOF_BYTES))
            return name.hex()
        word = self._words.get(name)
        if word is None or not hmac.compare_digest(proof, _proof(word, "client", mine + theirs)):
            return None
        connection.sendall(_proof(word, "server", theirs + mine))
        return name.hex()

    def _answer(self, name: str, request: dict[str, Any]) -> list[bytes | None]:
        keys = [(name, str(key)) for key in request["keys"]]
        values = [str(value).encode("latin-1") for value in request.get("values", ())]
        with self._changed:
            match request["do"]:
                case "set":
                    self._set(keys, values)
                case "add":
                    total = int(self._values.get(keys[0], b"0")) + int(request["amount"])
                    self._set(keys, [str(total).encode()])
                case "compare":
                    known = self._values.get(keys[0])
                    # As torch's TCPStore: an empty expectation is met where there is no value.
                    if known == values[0] or (known is None and not values[0]):
                        self._set(keys, values[1:])
                case "wait":
                    self._changed.wait_for(
                        lambda: self._is_closed or all(key in self._values for key in keys),
                        float(request["timeout_s"]),
                    )
                case "delete":
                    return [self._values.pop(key, None) for key in keys]
                case "count":
                    return [str(sum(owner == name for owner, _ in self._values)).encode()]
            return [self._values.get(key) for key in keys]

    def _set(self, keys: Sequence[tuple[str, str]], values: Sequence[bytes]) -> None:
        for key, value in zip(keys, values, strict=True):
            self._values[key] = value
        if sum(map(len, self._values.values())) > _MAX_BYTES:
            for key in keys:
                del self._values[key]
            raise ValueError("the store is full")
        self._changed.notify_all()


class GuardedStore(dist.Store):
    """A rank's side. Torch holds only the C++ half of it: keep the object as long as a process group may ask it.

    Raises RuntimeError if the server cannot be reached or does not know the word, which one on a service host
    cannot (``knows_word``).
    """

    def __init__(self, host: str, port: int, word: str, timeout: timedelta, *, knows_word: bool = True) -> None:
        super().__init__()
        self._where = (host, port, word, knows_word)
        self._timeout_s = timeout.total_seconds()
        self._lock = threading.Lock()
        with contextlib.ExitStack() as unless_proven:
            try:
                self._connection = socket.create_connection((host, port), min(self._timeout_s, _PROOF_TIMEOUT_S))
                unless_proven.callback(self._connection.close)
                theirs, mine = _exactly(self._connection, _NONCE_BYTES), secrets.token_bytes(_NONCE_BYTES)
                self._connection.sendall(_name_of(word) + mine + _proof(word, "client", theirs + mine))
                proof = _exactly(self._connection, _PROOF_BYTES)
            except (OSError, ValueError) as error:
                raise RuntimeError(f"the store at {host}:{port} does not let this process in: {error}") from error
            if knows_word and not hmac.compare_digest(proof, _proof(word, "server", mine + theirs)):
                raise RuntimeError(f"what listens at {host}:{port} is not a store of this training")
            unless_proven.pop_all()
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _ask(self, do: str, keys: Sequence[str], values: Sequence[bytes] = (), **more: Any) -> list[bytes | None]:
        """Ask the server; returns its answer, mostly the values of the keys, None for a key without a value."""
        request = {"do": do, "keys": list(keys), "values": _as_texts(values), **more}
        with self._lock:
            try:
                self._connection.settimeout(self._timeout_s + _PROOF_TIMEOUT_S)
                _send(self._connection, request)
                answer = _receive(self._connection)
            except (OSError, ValueError) as error:
                raise RuntimeError(f"the store does not answer: {error}") from error
        if answer is None:
            raise RuntimeError("the store has gone")
        return [None if value is None else value.encode("latin-1") for value in answer["values"]]

    def set(self, key: str, value: Any) -> None:
        """Set a value."""
        self._ask("set", [key], [value.encode() if isinstance(value, str) else value])

    def get(self, key: str) -> bytes:
        """A value, once it is there."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Values, once all are there."""
        found = self._ask("wait", keys, timeout_s=self._timeout_s)
        if None in found:
            raise RuntimeError(f"the store has no {', '.join(keys[:3])} after {self._timeout_s:g} s")
        return [value for value in found if value is not None]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        """Set several values."""
        self._ask("set", keys, values)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until all are there."""
        timeout_s = self._timeout_s if timeout is None else timeout.total_seconds()
        if None in self._ask("wait", keys, timeout_s=timeout_s):
            raise RuntimeError(f"the store has no {', '.join(keys[:3])} after {timeout_s:g} s")

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return None not in self._ask("look", keys)

    def add(self, key: str, amount: int) -> int:
        """Add to a number; the sum."""
        return int(self._ask("add", [key], amount=amount)[0] or 0)

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        """Set a value if it is what is expected; what it is then."""
        pair = [value.encode() if isinstance(value, str) else value for value in (expected, desired)]
        # Torch's own, too, answers with what was expected where there is no value.
        return self._ask("compare", [key], pair)[0] or pair[0]

    def delete_key(self, key: str) -> bool:
        """Forget a value."""
        return self._ask("delete", [key])[0] is not None

    def num_keys(self) -> int:
        """Number of keys that this word has in the store."""
        return int(self._ask("count", [])[0] or 0)

    def has_extended_api(self) -> bool:
        """True: it takes several keys at once."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the patience for answers."""
        self._timeout_s = timeout.total_seconds()

    @property
    def timeout(self) -> timedelta:
        """The patience for answers."""
        return timedelta(seconds=self._timeout_s)

    def clone(self) -> GuardedStore:
        """Another connection."""
        host, port, word, knows_word = self._where
        return GuardedStore(host, port, word, self.timeout, knows_word=knows_word)


def _as_texts(values: Iterable[bytes | None]) -> list[str | None]:
    """Values as JSON can have them, which knows no bytes: latin-1 maps each byte to one character and back."""
    return [None if value is None else bytes(value).decode("latin-1") for value in values]


def _name_of(word: str) -> bytes:
    """A word's digest, by which it is known without being sent."""
    return hashlib.sha256(b"freetrain store " + word.encode()).digest()


def _proof(word: str, side: str, nonces: bytes) -> bytes:
    return hmac.new(word.encode(), side.encode() + nonces, hashlib.sha256).digest()


def _send(connection: socket.socket, document: dict[str, Any]) -> None:
    content = json.dumps(document).encode()
    connection.sendall(_HEAD.pack(len(content)) + content)


def _receive(connection: socket.socket) -> dict[str, Any] | None:
    head = connection.recv(_HEAD.size, socket.MSG_WAITALL)
    if len(head) < _HEAD.size:
        return None
    (length,) = _HEAD.unpack(head)
    if length > _MAX_MESSAGE_BYTES:
        raise ValueError("a message is too long")
    document: dict[str, Any] = json.loads(_exactly(connection, length))
    return document


def _exactly(connection: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        part = connection.recv(length - len(content))
        if not part:
            raise ValueError("the connection was closed")
        content += part
    return content


def meet(
    generation: Generation, rank: int, word: str, timeout: timedelta, newer: Callable[[], bool]
) -> dist.Store:
    """Wait until all of a generation have arrived; returns the store in which they then connect.

    Rank 0 alone decides whether the meeting takes place, so that no rank connects with one that has moved on.
    Raises AbandonedError if a newer generation made this one obsolete.
    """
    host = "127.0.0.1" if generation.host == this_host() else generation.address
    knows_word = generation.host != SERVICE_HOST
    store = GuardedStore(host, generation.port, word, timeout, knows_word=knows_word)
    store.set(f"arrived/{rank}", "yes")
    if rank == 0:
        arrivals = [f"arrived/{rank}" for rank in range(len(generation.everyone))]
        # Polled: waiting in the store nobody would hear of a newer generation.
        while not (all_here := store.check(arrivals)) and not newer():
            time.sleep(0.002)
        store.set("verdict", "go" if all_here else "newer")
    if not _await_verdict(store, newer):
        raise AbandonedError("superseded by a newer generation")
    return store


def _await_verdict(store: dist.Store, newer: Callable[[], bool]) -> bool:
    """Rank 0's verdict; it counts even with a newer generation in sight, since all ranks follow it."""
    patience_s = None
    while not store.check(["verdict"]):
        if newer():
            patience_s = patience_s or time.monotonic() + 1.0
            if time.monotonic() > patience_s:
                return False
        time.sleep(0.002)
    return bool(store.get("verdict") == b"go")
