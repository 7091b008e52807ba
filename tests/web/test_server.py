"""What the server answers, and to whom."""

from __future__ import annotations

import gzip
import http.client
from collections.abc import Iterator

import pytest

from freetrain.errors import InputError
from freetrain.showing.ready_text import ReadyTextServer
from freetrain.web.server import LivePage, page_server
from tests.web.site import Site


@pytest.fixture
def server(site: Site) -> Iterator[ReadyTextServer]:
    site.publishes()
    made = page_server("127.0.0.1", 0, LivePage(site.config))
    with made.running():
        yield made


def ask(
    server: ReadyTextServer, method: str = "GET", path: str = "/", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_the_page_may_load_and_run_nothing_but_itself(server: ReadyTextServer) -> None:
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


def test_head_has_the_headers_alone_and_there_is_no_other_page(server: ReadyTextServer) -> None:
    status, headers, body = ask(server, "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000
    assert [ask(server, "GET", path)[0] for path in ("/x", "/status.json", "/../etc/passwd")] == [404] * 3


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:80", "127.0.0.1:9999", "[::1]", "[::1]:9811"])
def test_this_machines_own_names_are_taken(server: ReadyTextServer, name: str) -> None:
    assert ask(server, Host=name)[0] == 200


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:9811", "localhost.evil.example", "127.0.0.1.nip.io"]
)
def test_another_name_that_leads_here_is_refused(server: ReadyTextServer, name: str) -> None:
    status, _, body = ask(server, Host=name)
    assert status == 403
    assert b"lent" not in body


def test_an_address_that_is_taken_is_a_sentence(server: ReadyTextServer, site: Site) -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1, port \d+ cannot be used: Address already in use"):
        page_server("127.0.0.1", server.address[1], LivePage(site.config))
    with pytest.raises(InputError, match="cannot be used"):
        page_server("no.such.host.invalid", 0, LivePage(site.config))


def test_beyond_this_machine_any_name_is_taken(site: Site) -> None:
    site.publishes()
    made = page_server("0.0.0.0", 0, LivePage(site.config))
    with made.running():
        connection = http.client.HTTPConnection("127.0.0.1", made.address[1], timeout=60)
        connection.request("GET", "/", headers={"Host": "login1.site.example"})
        assert connection.getresponse().status == 200
