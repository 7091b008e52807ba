from __future__ import annotations

from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest

from freetrain.config import Prices
from freetrain.core.fragment import LentTime
from freetrain.core.harm import Harm
from freetrain.errors import StateError
from freetrain.replay.report import write_page
from freetrain.replay.report.ledger_page import LedgerReport, render_ledger

HOUR_S = 3600.0
FROM_S = 1_769_904_000.0
PRESS = LentTime(80 * HOUR_S, 6 * HOUR_S, 2 * HOUR_S, starts=9, evictions=3)
GAMES = LentTime(20 * HOUR_S, 2 * HOUR_S, 0.0, starts=1)
REPORT = LedgerReport(
    title="a machine",
    from_s=FROM_S,
    until_s=FROM_S + 3 * 86400,
    is_over=True,
    course=[(date(2026, 2, 1), PRESS), (date(2026, 2, 2), LentTime()), (date(2026, 2, 3), GAMES)],
    accounts=[(("fun",), GAMES), (("press",), PRESS)],
    users=[(("fun", "games"), GAMES), (("press", "news"), PRESS)],
    harms=[
        Harm("41", FROM_S + 60, 5.0, 2.0, 3.0, ("7_0",)),
        Harm("42", FROM_S + 90, 20.0, 5.0, 5.0, ("7_0", "7_1")),
    ],
    delays_since_s=None,
    prices=Prices(gpus_per_node=4, watts_per_node=1000, per_kwh=0.5, per_gpu_hour=2.0),
    version="0",
    command="freetrain ledger --report ledger.html",
)


class _Cells(HTMLParser):
    """The rows of all tables, and whether what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data.replace("\N{NO-BREAK SPACE}", " ")


def text_of(report: LedgerReport) -> str:
    return render_ledger(report).replace("\N{NO-BREAK SPACE}", " ")


def rows_of(report: LedgerReport) -> list[list[str]]:
    cells = _Cells()
    cells.feed(render_ledger(report))
    assert cells.open == []
    return cells.rows


def test_the_sum_stands_on_top_and_below_each_table() -> None:
    assert "100 node-hours lent to trainings, 90.0 % useful" in text_of(REPORT)
    sums = [row for row in rows_of(REPORT) if row[0] == "all"]
    assert sums == [["all", "100", "90", "10", "3", "360", "720", "100"]] * 2


def test_who_had_most_comes_first_with_what_it_is_worth() -> None:
    users = [row for row in rows_of(REPORT) if row[0] in ("news", "games")]
    assert users == [
        ["news", "press", "80", "72", "8", "3", "288", "576", "80"],
        ["games", "fun", "20", "18", "2", "0", "72", "144", "20"],
    ]


def test_without_prices_there_are_hours_alone() -> None:
    plain = replace(REPORT, prices=Prices())
    assert ["news", "press", "80", "72", "8", "3"] in rows_of(plain)
    assert "What it is worth" not in text_of(plain)
    assert "EUR" not in text_of(plain)


def test_one_account_needs_no_table_of_its_own() -> None:
    one = replace(REPORT, accounts=REPORT.accounts[1:], users=REPORT.users[1:])
    assert "By account" in text_of(REPORT)
    assert "By account" not in text_of(one)


def test_each_day_is_a_column_as_high_as_what_was_lent() -> None:
    page = text_of(REPORT)
    heights = [("90.0", "10.0"), ("0.0", "0.0"), ("22.5", "2.5")]
    for useful, lost in heights:
        assert f'height: {lost}%"></i><i class="useful" style="height: {useful}%' in page
    assert "2026-02-02: 0 node-hours" in page


def test_delays_are_listed_longest_first_and_added_up() -> None:
    assert [row[0] for row in rows_of(REPORT) if row[0] in ("41", "42")] == ["42", "41"]
    assert "2 jobs, by 40 seconds together, 30 seconds at most" in text_of(REPORT)
    assert "None, as far as the daemon measured." in text_of(replace(REPORT, harms=[]))


def test_delays_that_are_forgotten_are_not_taken_for_none() -> None:
    forgot = replace(REPORT, delays_since_s=FROM_S + 86400)
    assert "before 2026-02-02 00:00 UTC are no longer known" in text_of(forgot)
    assert "no longer known" not in text_of(REPORT)


def test_nothing_lent_is_said_and_nothing_is_divided_by_it() -> None:
    nothing = replace(REPORT, course=[(date(2026, 2, 1), LentTime())], accounts=[], users=[])
    assert "No idle node was lent" in text_of(nothing)
    assert "By user" not in text_of(nothing)


def test_names_of_people_are_no_markup() -> None:
    assert "<script" not in text_of(replace(REPORT, users=[(("press", "<script>"), PRESS)]))


def test_the_page_loads_and_runs_nothing() -> None:
    page = render_ledger(REPORT)
    assert "default-src 'none'" in page
    for word in ("<script", "src=", "href=", "url(", "@import"):
        assert word not in page


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be written"):
        write_page(tmp_path / "no" / "ledger.html", render_ledger(REPORT))
