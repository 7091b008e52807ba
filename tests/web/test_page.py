"""What the page says, however the daemon stands, and whatever users wrote."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from freetrain.core.harm import Harm
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.reports.status import NodeGroup, TrainerStatus
from freetrain.store import Store
from freetrain.web.facts import headline_of
from freetrain.web.server import LivePage
from tests.web.png import read_png
from tests.web.site import LOOK, Site

AHEAD = {1, 2, 3}
"""Colours of what is expected."""
EVIL = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def page_of(site: Site) -> str:
    return LivePage(site.config).now().plain.decode()


def words_of(page: str) -> str:
    """What a reader reads."""
    body = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page[page.index("<body") :], flags=re.DOTALL)
    return re.sub(r"[\s\xa0]+", " ", unescape(re.sub(r"<[^>]*>", " ", body)))


def drawn(page: str) -> set[int]:
    """The colours of the picture of node × time."""
    (image,) = re.findall(r'data:image/png;base64,([^"]+)', page)
    return set(read_png(base64.b64decode(image)).flat)


class _Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_everything_is_there(site: Site) -> None:
    site.publishes()
    site.remembers()
    page = page_of(site)
    said = words_of(page)
    assert _Elements(page).open == []
    assert "lends" in said
    assert "3 of 6 idle nodes are lent" in said
    assert "3 lent 1 asked for 0 due back 2 free 4 not lent" in said
    assert "60000101 resnet news 3 +1 1–4 40.0 % 2 runs" in said
    assert "102 games 0 0" not in said
    assert "no idle nodes fit it" in said
    assert "2 not lent a job runs here It can be lent once that job has ended. n[7-8]" in said
    assert "1:1 3 nodes, 1 training 60000101: 1 → 3 nodes optimal, columns, 0.004 s; two nodes were idle" in said
    assert "daemon lend n2 to 60000101; lend n3 to 60000101 2 1:1 done" in said
    assert "In the last day 1 job of the site started later because of fragments: 4.0 s in all" in said
    assert "samples seen: 100/s on 1, 180/s on 2, 320/s on 4 nodes" in page
    assert page.count("data:image/png;base64,") == 1
    assert drawn(page) >= AHEAD


def test_what_users_and_slurm_wrote_is_text_and_nothing_else(site: Site) -> None:
    trainer = TrainerStatus(EVIL, EVIL, "active", note=EVIL, lent="n1")
    nodes = (NodeGroup("n1", "lent", EVIL), NodeGroup("n2", "not lent", why=EVIL))
    site.publishes(replace(LOOK, trainers=(trainer,), nodes=nodes, stopped_by=EVIL, rejected=1,
                           rejected_examples=(EVIL,)))  # fmt: skip
    site.remembers()
    ledger = Store.open(site.path).ledger()
    ledger.record_command(time.time(), [EVIL], EVIL, EVIL, EVIL, EVIL)
    ledger.record_harm(Harm(EVIL, time.time(), 1.0, 0.0, 0.0, (EVIL,)))
    site.lent([(EVIL, EVIL, time.time() - 60, None)])
    page = page_of(site)
    elements = _Elements(page)
    assert elements.open == []
    assert elements.names.count("script") == 1
    assert "img" not in elements.names
    assert words_of(page).count("<img src=x onerror=alert(2)>") >= 10, "it is shown as it was written"


def stopped(site: Site) -> None:
    site.publishes().stopped()


def gone(site: Site) -> None:
    site.publishes()
    path = site.directory / "status.json"
    path.write_text(re.sub(r'"pid": \d+', '"pid": 4194304', path.read_text()))


def silent(site: Site) -> None:
    site.publishes(ago_s=900.0)
    file = site.publishes(ago_s=900.0)
    file._clock_s = time.time  # type: ignore[method-assign]
    file.silent("Slurm does not answer: timed out")


@pytest.mark.parametrize(
    ("how", "headline", "line"),
    [
        (stopped, "No daemon is at work here", "it was stopped 3 s ago"),
        (gone, "No daemon is at work here", "process 4194304 is gone"),
        (silent, "The daemon cannot look at Slurm", "No look has succeeded since"),
    ],
)
def test_where_nobody_looks_the_page_tells_of_the_last_look_and_foresees_nothing(
    site: Site, how: Callable[[Site], None], headline: str, line: str
) -> None:
    site.remembers()
    how(site)
    page = page_of(site)
    said = words_of(page)
    assert headline in said
    assert line in said
    assert "What follows is what the daemon found at its last look" in said
    assert "60000101 resnet news 3 +1 1–4 40.0 % 2 ran then" in said
    for claim in ("idle nodes are lent", "may stay lent", "expected to stay idle", "first wanted", " runs how"):
        assert claim not in said
    assert 'class="unknown"' in page
    assert not AHEAD & drawn(page)


def test_a_pause_a_stop_and_a_mode_that_lends_nothing_are_the_first_that_is_said(tmp_path: Path) -> None:
    cases = {
        "The daemon observes and lends nothing": (LOOK, "observe"),
        "Nothing more is lent: the daemon is paused": (replace(LOOK, paused_by="paused by root"), "act"),
        "Nothing is lent: the daemon is stopped": (replace(LOOK, stopped_by="stopped by /run/STOP"), "act"),
        "The daemon has not looked yet": (None, "act"),
    }
    for number, (headline, (look, mode)) in enumerate(cases.items()):
        directory = tmp_path / str(number)
        directory.mkdir()
        site = Site(directory, mode)
        site.publishes(look)
        said = words_of(page_of(site))
        assert headline in said
        assert "idle nodes are lent" not in said
    (directory / "status.json").unlink()
    assert "No daemon is at work here: there is no" in words_of(page_of(site))


def test_a_stop_file_counts_before_the_daemon_has_seen_it(site: Site) -> None:
    site.publishes()
    (site.directory / "STOP").touch()
    said = words_of(page_of(site))
    assert "Nothing is lent: the daemon is stopped" in said
    assert "as of the next look" in said


def test_where_the_site_hides_the_jobs_of_others_nobody_is_named(site: Site) -> None:
    site.publishes(replace(LOOK, rejected=1, rejected_examples=("job 60000101 of news",)), is_private=True)
    site.remembers()
    page = page_of(site)
    said = words_of(page)
    shown = said + "".join(re.findall(r"<title.*?</title>|aria-label=\".*?\"", page))
    assert len(shown) > len(said) + 100
    for name in ("news", "games", "60000101", "resnet", "77", "job 9"):
        assert not re.search(rf"(?<![\d.:-]){name}(?!\d)", shown), name
    assert "Trainings 2 trainings." in said
    assert "3 of 6 idle nodes are lent" in said
    assert "1 job of the site started later" in said


def test_without_the_database_the_rest_is_shown_and_the_reason_why(site: Site) -> None:
    site.publishes()
    said = words_of(page_of(site))
    assert "database cannot be read here, so the past is missing: there is no" in said
    assert "3 of 6 idle nodes are lent" in said
    site.path.write_bytes(b"no database at all" * 1000)
    assert "is not an SQLite database" in words_of(page_of(site))


def test_what_may_not_be_read_is_unknown_rather_than_gone(site: Site) -> None:
    (site.directory / "status.json").write_text("not yet whole")
    told = headline_of(find_standing(site.config), is_hidden=True)
    assert (told.word, told.sentence) == ("unknown", "How the daemon stands is not known here")
    (line,) = told.lines
    assert line.endswith("is not a status of this freetrain's.")
    assert b"How the daemon stands is not known here" in LivePage(site.config).now().plain


def test_a_word_and_its_tone_are_enough_to_know_whether_to_look_closer(site: Site) -> None:
    site.publishes()
    assert headline_of(find_standing(site.config), is_hidden=False).tone == "good"
    (site.directory / "STOP").touch()
    told = headline_of(find_standing(site.config), is_hidden=False)
    assert (told.word, told.tone) == ("stopped", "warning")
