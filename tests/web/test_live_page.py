from __future__ import annotations

import gzip

import pytest

from freetrain.web import server
from freetrain.web.server import LivePage, PageTooOldError
from tests.web.site import Site


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, or read, in order."""
    told: list[str] = []

    def noted(name: str) -> None:
        before = getattr(server, name)
        monkeypatch.setattr(server, name, lambda *given: (told.append(name), before(*given))[1])

    noted("render")
    noted("read_past")
    monkeypatch.setattr(server, "_PAST_FRESH_S", 1e9)
    return told


def test_a_hundred_readers_cost_what_one_costs(site: Site, made: list[str]) -> None:
    site.publishes()
    page = LivePage(site.config, Clock())
    assert len({page.now().html for _ in range(100)}) == 1
    assert gzip.decompress(page.now().packed) == page.now().html
    assert made == ["read_past", "render"]


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
    assert made == ["read_past", "render"]
    site.publishes(ago_s=0.0)
    clock.now_s += 0.9
    page.renew()
    assert made == ["read_past", "render"], "that would be twice in a second"
    clock.now_s += 0.2
    page.renew()
    clock.now_s += 11
    page.renew()
    assert made[2:] == ["read_past", "render", "render"], "a daemon that hangs is found out, too"


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
    find = server.find_standing

    def slowly(*given: object) -> object:
        clock.now_s += 4
        return find(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(server, "find_standing", slowly)
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
    monkeypatch.setattr(server, "_SOON_S", 0.0)
    monkeypatch.setattr(server, "_LEAST_S", 0.0)
    monkeypatch.setattr(server, "_REST", 0.0)
    monkeypatch.setattr(server, "_TICK_S", 0.001)
    page = LivePage(site.config)
    before, whole = page.now(), server.render
    monkeypatch.setattr(server, "render", lambda facts: 1 / 0)
    with page.kept_fresh():
        while caplog.text.count("the page cannot be made") < 2:
            assert page.now() is before
        monkeypatch.setattr(server, "render", whole)
        while page.now() is before:
            pass
