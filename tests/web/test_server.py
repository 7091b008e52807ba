"""What the server answers, to whom, and to how many."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from freetrain.errors import InputError
from freetrain.web import server as serving
from freetrain.web.live_page import LivePage
from freetrain.web.server import PageServer
from tests.web.site import Site


@pytest.fixture
def server(site: Site) -> Iterator[PageServer]:
    site.publishes()
    with PageServer("127.0.0.1", 0, LivePage(site.config)) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: PageServer, method: str = "GET", path: str = "/", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)  # type: ignore[arg-type]
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_the_page_may_load_and_run_nothing_but_itself(server: PageServer) -> None:
    status, headers, body = ask(server)
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Cache-Control"] == "no-store"
    assert b"3 of 6" in body
    assert gzip.decompress(ask(server, Accept_Encoding="gzip")[2])[:15] == b"<!DOCTYPE html>"


def test_head_has_the_headers_alone_and_nothing_else_is_answered(server: PageServer) -> None:
    status, headers, body = ask(server, "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000
    assert [ask(server, "GET", path)[0] for path in ("/x", "/status.json", "/../etc/passwd")] == [404] * 3
    assert [ask(server, method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [501] * 4


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:80", "127.0.0.1:9999", "[::1]", "[::1]:9811"])
def test_this_machines_own_names_are_taken(server: PageServer, name: str) -> None:
    assert ask(server, Host=name)[0] == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:9811", "localhost.evil.example", "127.0.0.1.nip.io"]
)
def test_another_name_that_leads_here_is_refused(server: PageServer, name: str) -> None:
    status, _, body = ask(server, Host=name)
    assert status == 403
    assert b"lent" not in body


def test_more_readers_than_there_is_room_for_are_sent_away(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server._room = threading.BoundedSemaphore(2)
    with ExitStack() as opened:
        waiting = [opened.enter_context(socket.create_connection(server.server_address[:2])) for _ in range(2)]
        for each in waiting:
            each.sendall(b"GET / HTTP/1.0\r\n")  # and no more
        third = opened.enter_context(socket.create_connection(server.server_address[:2], 60))
        assert third.recv(1) == b""
        waiting[0].sendall(b"Host: localhost\r\n\r\n")
        assert waiting[0].recv(12) == b"HTTP/1.0 200"


def test_who_says_nothing_is_not_waited_for(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.PageHandler, "timeout", 0.05)
    with socket.create_connection(server.server_address[:2], 60) as mute:
        assert mute.recv(1) == b""


def test_an_address_that_is_taken_is_a_sentence(server: PageServer, site: Site) -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1, port \d+ cannot be used: Address already in use"):
        PageServer("127.0.0.1", server.server_address[1], LivePage(site.config))
    with pytest.raises(InputError, match="cannot be used"):
        PageServer("no.such.host.invalid", 0, LivePage(site.config))


def test_beyond_this_machine_any_name_is_taken(site: Site) -> None:
    site.publishes()
    with PageServer("0.0.0.0", 0, LivePage(site.config)) as made:
        assert not made.is_local
        thread = threading.Thread(target=made.handle_request)
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", made.server_address[1], timeout=60)
        connection.request("GET", "/", headers={"Host": "login1.site.example"})
        assert connection.getresponse().status == 200
        thread.join()
