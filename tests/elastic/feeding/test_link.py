from __future__ import annotations

import mmap
import os
import queue
import socket
import threading
import weakref
from collections.abc import Iterator

import pytest

from freetrain.elastic.feeding.link import FeedError, Link, SharedMemory, memory_of

SIZE_BYTES = 1 << 20


class Pair:
    """Both ends of a connection, each with a memory of its own, as on two machines."""

    def __init__(self) -> None:
        self.lost = False
        self.sockets = _connected()
        self.memories = [mmap.mmap(-1, SIZE_BYTES) for _ in range(2)]
        self.source, self.newcomer = (
            Link(one, memory, lambda: self.lost) for one, memory in zip(self.sockets, self.memories, strict=True)
        )


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.source.close()
    pair.newcomer.close()


def test_bytes_of_the_memory_arrive_in_their_place(pair: Pair) -> None:
    pair.memories[0][100:500_000] = os.urandom(499_900)
    pair.source.send({"number": 1}, 100, 500_000)
    pair.source.send({"number": 2})
    assert pair.newcomer.receive(10) == {"number": 1}
    assert pair.newcomer.receive(10) == {"number": 2}
    assert pair.memories[1][:] == pair.memories[0][:]


def test_memory_that_both_ends_see_does_not_travel(pair: Pair) -> None:
    source = Link(pair.sockets[0], pair.memories[0], lambda: False, is_seen=True)
    pair.memories[0][:4] = b"here"
    source.send({"number": 1}, 0, SIZE_BYTES)
    assert pair.newcomer.receive(10) == {"number": 1}
    assert pair.memories[1][:4] == bytes(4)
    source.send({"number": 2})
    assert pair.newcomer.receive(10) == {"number": 2}
    source.close()


def test_nothing_comes_where_nothing_is_sent(pair: Pair) -> None:
    assert pair.newcomer.receive(0.01) is None


def test_who_has_sent_waits_until_the_other_is_done(pair: Pair) -> None:
    waiting = threading.Thread(target=pair.source.await_done, daemon=True)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    pair.newcomer.say_done()
    waiting.join(60)
    assert not waiting.is_alive()


def test_all_that_was_sent_before_the_end_arrives(pair: Pair) -> None:
    pair.source.send({"last": True})
    pair.source.close()
    assert pair.newcomer.receive(10) == {"last": True}
    with pytest.raises(FeedError, match="has gone"):
        pair.newcomer.receive(10)


def test_a_closed_connection_is_seen_by_who_waits(pair: Pair) -> None:
    pair.newcomer.close()
    with pytest.raises(FeedError):
        pair.source.await_done()


def test_nobody_waits_for_one_that_is_known_to_be_lost(pair: Pair) -> None:
    pair.lost = True
    with pytest.raises(FeedError, match="has gone"):
        pair.source.await_done()


def test_two_processes_of_a_machine_see_one_memory() -> None:
    shared = SharedMemory(SIZE_BYTES)
    other = memory_of(os.getpid(), shared.descriptor, SIZE_BYTES)
    other[10:20] = b"0123456789"
    assert shared.memory[10:20] == b"0123456789"
    shared.close()


def test_memory_is_let_go_of_by_another_thread_as_that_takes_its_time() -> None:
    shared = SharedMemory(SIZE_BYTES)
    freed_by = queue.SimpleQueue[str]()
    memory = weakref.ref(shared.memory, lambda _: freed_by.put(threading.current_thread().name))
    shared.close()
    assert freed_by.get(timeout=60) == "freetrain-memory"
    assert memory() is None


def test_memory_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(FeedError, match="no memory for 1152921504607 MB"):
        SharedMemory(1 << 60)
    with pytest.raises(FeedError, match="not to be had"):
        memory_of(os.getpid(), 10_000, SIZE_BYTES)
