"""Messages to the store in which the ranks of a training meet, on a service host, where anybody is let in."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from freetrain.elastic.worlds import guarded_store
from freetrain.elastic.worlds.guarded_store import StoreServer
from tests.fuzzing.damage import damaged
from tests.fuzzing.running import Parser

REQUESTS = (
    b'{"do":"set","keys":["rank0"],"values":["abc"]}',
    b'{"do":"add","keys":["n"],"values":[],"amount":1}',
    b'{"do":"compare","keys":["a"],"values":["","x"]}',
    b'{"do":"look","keys":["a","b"],"values":[]}',
    b'{"do":"delete","keys":["a"],"values":[]}',
)
_HELLO_BYTES = 80
_HEAD = guarded_store._HEAD


def messages(random: random.Random, folder: Path) -> None:
    """A connection that sends three requests and closes.

    It sends and reads in threads: sockets hold only so much that nobody has read, and damaged messages are long.
    """
    sent = random.randbytes(_HELLO_BYTES)
    for message in random.choices(REQUESTS, k=3):
        text = damaged(random, message) if random.random() < 0.6 else message
        length = len(text) if random.random() < 0.9 else random.choice([0, 1, 2**31, 2**32 - 1])
        sent += _HEAD.pack(length) + text
    ours, theirs = socket.socketpair()
    with ours, ThreadPoolExecutor() as client:
        client.submit(_send, ours, sent)
        client.submit(_read_all, ours)
        _server()._serve(theirs)


def _send(connection: socket.socket, text: bytes) -> None:
    with suppress(OSError):  # the server has closed it
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)


def _read_all(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


@cache
def _server() -> StoreServer:
    return StoreServer()


PARSERS: Mapping[str, Parser] = {"store": Parser(messages)}
