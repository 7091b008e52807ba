from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.store.notice_book import MOST_TRIES, Notice, NoticeBook
from freetrain.store.store import Store


@pytest.fixture
def book(tmp_path: Path) -> NoticeBook:
    return Store.open(tmp_path / "freetrain.db").notice_book()


def whats(notices: list[Notice]) -> list[str]:
    return [notice.what for notice in notices]


def test_what_is_noticed_replaces_what_was(book: NoticeBook) -> None:
    assert book.noticed() is None
    first = {"lending": "goes on", "training 7": "active"}
    assert book.note([], {}, first, 1.0) == []
    assert book.noticed() == first
    second = {"lending": "goes on", "training 8": "active"}
    book.note([], first, second, 2.0)
    assert book.noticed() == second


def test_a_notice_waits_until_it_is_told_and_is_not_tried_for_ever(book: NoticeBook) -> None:
    one, other = book.note([Notice("pause", "", "one"), Notice("finished", "news", "other")], {}, {}, 1.0)
    assert (one.id, other.id) == (1, 2)
    assert whats(book.untold()) == ["one", "other"]
    book.begin([one.id])
    book.mark_delivered([one.id], 5.0)
    assert whats(book.untold()) == ["other"]
    assert (book.last_told(5.0), book.last_told(5.1)) == ({("pause", ""): 5.0}, {})
    for _ in range(MOST_TRIES):
        assert whats(book.untold()) == ["other"]
        book.begin([other.id])
    assert book.untold() == []


def test_old_notices_are_forgotten(book: NoticeBook) -> None:
    for time_s in (1.0, 2.0):
        book.note([Notice("pause", "", f"at {time_s:g}")], {}, {}, time_s)
    book.forget(2.0)
    assert whats(book.untold()) == ["at 2"]
