"""What the server answers, and how the page is kept fresh."""

from __future__ import annotations

import gzip
import http.client
from collections.abc import Iterator

import pytest

from freetrain.daemon.reports.standing import find_standing
from freetrain.errors import InputError
from freetrain.showing.ready_text import ReadyTextServer
from freetrain.web import server as web_server
from freetrain.web.page import render
from freetrain.web.server import LivePage, PageTooOldError, page_server
from tests.web.site import Site


@pytest.fixture
def server(site: Site) -> Iterator[ReadyTextServer]:
    site.publishes()
    made = page_server("127.0.0.1", 0, LivePage(site.config), site.identities)
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
        page_server("127.0.0.1", server.address[1], LivePage(site.config), site.identities)
    with pytest.raises(InputError, match="cannot be used"):
        page_server("no.such.host.invalid", 0, LivePage(site.config), site.identities)


def test_beyond_this_machine_any_name_is_taken(site: Site) -> None:
    site.publishes()
    made = page_server("0.0.0.0", 0, LivePage(site.config), site.identities)
    with made.running():
        connection = http.client.HTTPConnection("127.0.0.1", made.address[1], timeout=60)
        connection.request("GET", "/", headers={"Host": "login1.site.example"})
        assert connection.getresponse().status == 200


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, or read, in order."""
    told: list[str] = []

    def noted(name: str) -> None:
        before = getattr(web_server, name)
        monkeypatch.setattr(web_server, name, lambda *given: (told.append(name), before(*given))[1])

    noted("render")
    noted("read_history")
    monkeypatch.setattr(web_server, "_PAST_FRESH_S", 1e9)
    return told


def test_a_hundred_readers_cost_what_one_costs(site: Site, made: list[str]) -> None:
    site.publishes()
    page = LivePage(site.config, Clock())
    assert len({page.now().plain for _ in range(100)}) == 1
    assert gzip.decompress(page.now().packed) == page.now().plain
    assert made == ["read_history", "render"]


def test_it_is_made_once_a_look_and_now_and_then_and_the_database_read_once_a_look(
    site: Site, made: list[str]
) -> None:
    site.publishes()
    clock = Clock()
    page = LivePage(site.config, clock)
    made.clear()
    clock.now_s += 5
    page.renew()
    assert made == [], "the daemon has not looked"
    site.publishes(ago_s=1.0)
    page.renew()
    assert made == ["read_history", "render"]
    site.publishes(ago_s=0.0)
    clock.now_s += 0.9
    page.renew()
    assert made == ["read_history", "render"], "that would be twice in a second"
    clock.now_s += 0.2
    page.renew()
    clock.now_s += 11
    page.renew()
    assert made[2:] == ["read_history", "render", "render"], "a daemon that hangs is found out, too"


def test_while_nobody_asks_it_is_made_once_a_minute(site: Site, made: list[str]) -> None:
    clock = Clock()
    page = LivePage(site.config, clock)
    clock.now_s += 601
    page.renew()
    made.clear()
    for _ in range(120):
        clock.now_s += 1
        page.renew()
    assert made.count("render") == 2
    page.now()
    clock.now_s += 11
    page.renew()
    assert made.count("render") == 3


def test_what_takes_long_is_made_less_often(site: Site, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    find = find_standing

    def slowly(*given: object) -> object:
        clock.now_s += 4
        return find(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(web_server, "find_standing", slowly)
    page = LivePage(site.config, clock)
    began_s = clock.now_s
    made.clear()
    while clock.now_s < began_s + 400:
        page.now()
        clock.now_s += 1
        page.renew()
    assert made.count("render") == 10


def test_a_page_that_cannot_be_made_any_more_is_not_shown(site: Site) -> None:
    clock = Clock()
    page = LivePage(site.config, clock)
    clock.now_s += 299
    page.now()
    clock.now_s += 2
    with pytest.raises(PageTooOldError):
        page.now()


def test_what_goes_wrong_is_said_and_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(web_server, "_SOON_S", 0.0)
    monkeypatch.setattr(web_server, "_MIN_INTERVAL_S", 0.0)
    monkeypatch.setattr(web_server, "_REST", 0.0)
    monkeypatch.setattr(web_server, "_TICK_S", 0.001)
    page = LivePage(site.config)
    before, whole = page.now(), render
    monkeypatch.setattr(web_server, "render", lambda facts: 1 / 0)
    with page.kept_fresh():
        while caplog.text.count("the page cannot be made") < 2:
            assert page.now() is before
        monkeypatch.setattr(web_server, "render", whole)
        while page.now() is before:
            pass
