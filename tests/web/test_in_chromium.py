"""The page in a browser: it loads nothing, is read by keyboard, follows the daemon, and is there at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.throughput import Observation
from freetrain.daemon.reports.status import LookStatus, NodeGroup, TrainerStatus
from freetrain.web import page as web_page
from freetrain.web import server
from freetrain.web.server import LivePage, page_server
from tests import needed
from tests.web.chromium import PROGRAMS, Chromium, chromium
from tests.web.site import LOOK, Site

pytestmark = needed.a_program(*PROGRAMS)
FIRST_PAINT_MS = 300


@contextmanager
def serving(site: Site) -> Iterator[str]:
    live = LivePage(site.config)
    server = page_server("127.0.0.1", 0, live, site.identities)
    with server.running(), live.kept_fresh():
        yield server.url


def until(browser: Chromium, script: str) -> None:
    """Wait for what happens in the page."""
    until_s = time.monotonic() + 60
    while not browser.evaluate(script):
        assert time.monotonic() < until_s, script
        time.sleep(0.05)


def first_paint_ms(browser: Chromium) -> float:
    """When something was seen first, counted from the click."""
    until(browser, "performance.getEntriesByName('first-contentful-paint').length")
    return float(browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def test_the_page_follows_the_daemon_keeps_its_place_and_says_when_nobody_answers(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_page, "REFRESH_S", 0.2)
    monkeypatch.setattr(server, "_MIN_INTERVAL_S", 0.2)
    site.remembers()
    site.publishes()
    with chromium(tmp_path / "profile") as browser:
        with serving(site) as url:
            browser.show(url, width=390, height=700)
            assert browser.evaluate("document.querySelector('h1').innerText").startswith("3 of 6")
            assert browser.evaluate("document.documentElement.scrollWidth") == 390, "nothing is cut off"
            browser.press("Tab")
            browser.press("Tab")
            assert browser.evaluate("document.activeElement.innerText") == "Trainings"
            browser.evaluate("window.scrollTo(0, 600)")
            assert browser.evaluate("document.querySelector('#map').getBoundingClientRect().top") == 0, "in view"
            site.publishes().stopped()
            until(browser, "document.querySelector('h1').innerText == 'No daemon is at work here'")
            assert browser.evaluate("document.activeElement.innerText") == "Trainings"
            assert browser.evaluate("window.scrollY") > 300
            assert browser.complaints == []
        until(browser, "!document.querySelector('#out-of-date').hidden")
        assert browser.evaluate("document.querySelector('#out-of-date b').innerText").endswith("Z")


@pytest.mark.soak
def test_of_a_large_machine_something_is_seen_within_a_third_of_a_second(site: Site, tmp_path: Path) -> None:
    look = fill_with_much(site)
    with serving(site) as url, chromium(tmp_path / "profile") as browser:
        paints_ms = []
        for _ in range(9):
            site.publishes(look)
            browser.show(url)
            paints_ms.append(round(first_paint_ms(browser)))
    rendered = LivePage(site.config).now()
    print(f"first paints after {paints_ms} ms; {len(rendered.plain):,} bytes, {len(rendered.packed):,} with gzip")
    assert sorted(paints_ms)[4] < FIRST_PAINT_MS


def fill_with_much(site: Site, nodes: int = 5000, trainers: int = 500, stays: int = 50_000) -> LookStatus:
    """A machine with so many nodes, of which a fifth is lent, and a day of lending behind it; its last look."""
    now_s = time.time()
    names = [f"c{number:04d}" for number in range(nodes)]
    lent = names[: nodes // 5]
    ids = [str(1000 + number) for number in range(trainers)]
    each = len(lent) // (trainers // 2) or 1
    of = {name: ids[number // each % trainers] for number, name in enumerate(lent)}
    groups = [
        *(NodeGroup(name, "lent", of[name], until_s=now_s + 13 * number) for number, name in enumerate(lent)),
        *(NodeGroup(name, "free", until_s=now_s + 900) for name in names[len(lent) : len(lent) + nodes // 20]),
        *(
            NodeGroup(name, "not lent", why=f"job {50_000 + number // 7} runs here")
            for number, name in enumerate(names[len(lent) + nodes // 20 :])
        ),
    ]
    states = [
        TrainerStatus(id_, f"user{number % 60}", "active", samples_done=1e4 * number, ends={"preempted": number},
                      lent=",".join(name for name in lent if of[name] == id_), why="no idle nodes")
        for number, id_ in enumerate(ids)
    ]  # fmt: skip
    site.remembers()
    tag = "freetrain:name=model-{},min=1,max=64,target=9000000"
    seen = tuple(Observation(size, 100.0 * size**0.9) for size in (1, 2, 4, 8, 16))
    site.knows([
        KnownTrainer(id_, f"user{number % 60}", tag.format(number), TrainerState.ACTIVE, now_s, observations=seen)
        for number, id_ in enumerate(ids)
    ])  # fmt: skip
    site.lent([
        (names[number * 7 % (nodes // 2)], ids[number * 3 % trainers], start_s, start_s + 900)
        for number in range(stays)
        for start_s in [now_s - 86_000 + 85_000 * number / stays]
    ])  # fmt: skip
    site.lent([(name, of[name], now_s - 600, None) for name in lent])
    look = replace(LOOK, idle_nodes=len(lent) + nodes // 20, nodes=tuple(groups), trainers=tuple(states))
    for ago_s in range(86_000, 0, -300):
        site.publishes(replace(look, nodes=(), trainers=(), idle_nodes=nodes // 4), ago_s=ago_s)
    site.publishes(look)
    return look
