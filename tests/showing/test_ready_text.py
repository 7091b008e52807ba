"""A server that no client can hold."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from freetrain.showing import ready_text
from freetrain.showing.ready_text import HttpAnswer, HttpRequest, ReadyTextServer, is_loopback

BODY = b"all is well\n"
Open = Callable[[bytes], socket.socket]


@pytest.fixture
def server() -> Iterator[ReadyTextServer]:
    with serving(lambda _: HttpAnswer(BODY)) as made:
        yield made


@contextlib.contextmanager
def serving(answer: Callable[[HttpRequest], HttpAnswer]) -> Iterator[ReadyTextServer]:
    server = ReadyTextServer("127.0.0.1", 0, answer)
    with server.running():
        yield server


@pytest.fixture
def opened(server: ReadyTextServer) -> Iterator[Open]:
    """Opens a connection that sends this and no more."""
    with contextlib.ExitStack() as stack:

        def connect(head: bytes) -> socket.socket:
            client = stack.enter_context(socket.create_connection(server.address, 60))
            client.sendall(head)
            return client

        yield connect


def ask(server: ReadyTextServer, method: str = "GET", path: str = "/") -> tuple[int, bytes]:
    with contextlib.closing(http.client.HTTPConnection(*server.address, timeout=60)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def is_closed(client: socket.socket) -> bool:
    """Waits until it is."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_get_is_answered_and_head_without_the_body_and_nothing_else(server: ReadyTextServer) -> None:
    assert ask(server) == (200, BODY)
    assert ask(server, "HEAD") == (200, b"")
    assert [ask(server, method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4
    assert server.dropped == 0


def test_the_request_is_told_as_it_was_sent() -> None:
    seen: list[HttpRequest] = []

    def answer(request: HttpRequest) -> HttpAnswer:
        seen.append(request)
        return HttpAnswer(BODY)

    with serving(answer) as server:
        ask(server, path="/metrics?name=x")
    (request,) = seen
    assert (request.method, request.path, request.peer) == ("GET", "/metrics", "127.0.0.1")
    assert request.headers["host"].startswith("127.0.0.1:")


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.0\r\nHost: localh", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_two_hundred_slow_senders_lock_nobody_out_and_cost_no_thread(
    server: ReadyTextServer, opened: Open, head: bytes
) -> None:
    threads = threading.active_count()
    for _ in range(200):
        opened(head)
        assert ask(server) == (200, BODY)
    assert threading.active_count() == threads
    assert len(server._open) <= ready_text.MAX_OF_A_PEER
    assert server.dropped >= 200 - ready_text.MAX_OF_A_PEER


def test_all_peers_together_have_so_many_connections_at_most(
    server: ReadyTextServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_text, "MAX_CONNECTIONS", 2)
    first = opened(b"G")
    for _ in range(5):
        assert ask(server) == (200, BODY)
        opened(b"G")
    assert is_closed(first)


def test_a_request_that_comes_byte_by_byte_has_a_time_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_text, "WHOLE_REQUEST_S", 0.3)
    with serving(lambda _: HttpAnswer(BODY)) as server, socket.create_connection(server.address, 60) as client:
        with contextlib.suppress(OSError):
            while True:
                client.sendall(b"G")
                time.sleep(0.02)
        assert server.dropped == 1


def test_who_does_not_read_its_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_text, "WHOLE_REQUEST_S", 0.3)
    with (
        serving(lambda _: HttpAnswer(bytes(50_000_000))) as server,
        socket.create_connection(server.address, 60) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until_s = time.monotonic() + 60
        while not server.dropped and time.monotonic() < until_s:
            time.sleep(0.01)
        assert server.dropped == 1


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100_000,
        b"\x16\x03\x01\x02\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"\r\n\r\n",
        b"\xff" * 50 + b"\r\n\r\n",
    ],
)
def test_what_is_not_a_small_request_of_http_is_dropped_and_counted(
    server: ReadyTextServer, opened: Open, head: bytes
) -> None:
    assert is_closed(opened(head))
    assert ask(server) == (200, BODY)
    assert server.dropped == 1


def test_an_answer_that_fails_is_dropped_quietly_and_the_next_is_given(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: HttpRequest) -> HttpAnswer:
        if request.path == "/bad":
            raise RuntimeError("no")
        return HttpAnswer(BODY)

    with serving(answer) as server:
        with pytest.raises((http.client.BadStatusLine, ConnectionResetError)):
            ask(server, path="/bad")
        assert ask(server) == (200, BODY)
        assert server.dropped == 1
    assert (capfd.readouterr().err, caplog.text) == ("", "")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.3.0.1", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_loopback_addresses_are_known(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected
