from __future__ import annotations

import gzip

import pytest

from freetrain.web import live_page
from freetrain.web.live_page import LivePage
from tests.web.site import Site


def test_a_hundred_readers_in_a_second_cost_one_page_and_looks_one_reading_of_the_database(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(name: str) -> None:
        before = getattr(live_page, name)
        monkeypatch.setattr(live_page, name, lambda *given: (made.append(name), before(*given))[1])

    counted("render")
    counted("read_past")
    monkeypatch.setattr(live_page, "_PAST_FRESH_S", 1e9)
    site.publishes()
    clock = 0.0
    page = LivePage(site.config, lambda: clock)
    assert len({page.now().html for _ in range(100)}) == 1
    assert made == ["read_past", "render"]
    clock = 1.0
    page.now()
    assert made == ["read_past", "render", "render"], "the daemon has not looked meanwhile"
    site.publishes(ago_s=1.0)
    clock = 2.0
    rendered = page.now()
    assert made[3:] == ["read_past", "render"]
    assert gzip.decompress(rendered.packed) == rendered.html
