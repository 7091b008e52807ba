"""The store talks to its own members and to nobody else, in either direction."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
import torch.distributed as dist

from freetrain.elastic.worlds.guarded_store import GuardedStore, StoreServer

SOON = timedelta(seconds=20)


@pytest.fixture
def server() -> Iterator[StoreServer]:
    server = StoreServer(words=["word", "other"])
    yield server
    server.close()


def test_members_set_get_wait_and_count(server: StoreServer) -> None:
    one, other = (GuardedStore("127.0.0.1", server.port, "word", SOON) for _ in range(2))
    threading.Timer(0.05, lambda: one.set("place", b"\x00\xff")).start()
    assert other.get("place") == b"\x00\xff"
    assert [one.add("sum", 2), other.add("sum", 3)] == [2, 5]
    assert one.check(["place", "sum"])
    assert not one.check(["place", "nothing"])
    assert other.multi_get(["place", "sum"]) == [b"\x00\xff", b"5"]
    assert one.compare_set("sum", "5", "9") == b"9"
    assert one.num_keys() == 2
    assert one.delete_key("sum")
    with pytest.raises(RuntimeError, match="the store has no nothing"):
        one.wait(["nothing"], timedelta(seconds=0.05))


def test_torch_takes_it_for_a_store(server: StoreServer) -> None:
    plain = GuardedStore("127.0.0.1", server.port, "word", SOON)
    behind = dist.PrefixStore("prefix", plain)
    behind.set("key", "value")
    assert behind.get("key") == b"value"
    assert plain.check(["prefix/key"])


def test_who_does_not_know_the_word_is_not_let_in(server: StoreServer) -> None:
    with pytest.raises(RuntimeError, match="does not let this process in"):
        GuardedStore("127.0.0.1", server.port, "guess", SOON)


def test_torchs_own_store_gets_nothing_out_of_it(server: StoreServer) -> None:
    GuardedStore("127.0.0.1", server.port, "word", SOON).set("key", "value")
    options = {"is_master": False, "wait_for_workers": False, "timeout": timedelta(seconds=1)}
    with pytest.raises(RuntimeError):
        dist.TCPStore("127.0.0.1", server.port, **options).get("key")


def test_members_of_one_world_see_nothing_of_another(server: StoreServer) -> None:
    GuardedStore("127.0.0.1", server.port, "word", SOON).set("key", "value")
    assert not GuardedStore("127.0.0.1", server.port, "other", SOON).check(["key"])


def test_a_store_that_does_not_know_the_word_is_told_nothing() -> None:
    liar = StoreServer()
    with pytest.raises(RuntimeError, match="is not a store of this training"):
        GuardedStore("127.0.0.1", liar.port, "word", SOON)
    assert GuardedStore("127.0.0.1", liar.port, "word", SOON, knows_word=False).num_keys() == 0
    liar.close()


def test_nobody_fills_its_memory(server: StoreServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as stranger, contextlib.suppress(OSError):
        for _ in range(64):
            stranger.sendall(bytes(1 << 20))
    member = GuardedStore("127.0.0.1", server.port, "word", SOON)
    with pytest.raises(RuntimeError):
        member.set("key", bytes(1 << 21))
    assert not GuardedStore("127.0.0.1", server.port, "word", SOON).check(["key"])


def test_who_waits_when_it_closes_hears_of_it(server: StoreServer) -> None:
    member = GuardedStore("127.0.0.1", server.port, "word", SOON)
    threading.Timer(0.1, server.close).start()
    with pytest.raises(RuntimeError):
        member.get("never")
