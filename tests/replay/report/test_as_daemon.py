from __future__ import annotations

from freetrain.replay.outcome import SiteOutcome
from freetrain.replay.report import ReportInput
from freetrain.replay.report.page import render
from freetrain.replay.report.tables import compared, price


def test_the_page_shows_what_the_daemon_gets_beside_what_the_holes_allow(
    report: ReportInput, daemon_report: ReportInput
) -> None:
    assert "the daemon gets" not in render(report)
    page = render(daemon_report)
    daemon = daemon_report.study.as_daemon
    assert daemon is not None
    for row in compared(daemon_report.study.outcome, daemon.outcome):
        assert f'<td class="n">{row.daemon}</td><td class="n">{row.ideal}</td>' in page


def test_the_price_is_how_many_jobs_of_the_site_meet_fragments() -> None:
    assert price(SiteOutcome(0, 0, 0.0, 0.0, 0.0)) == (
        "None of the site’s jobs started on a node that had been idle."
    )
    assert "4 jobs of the site that started on idle nodes, 0 would" in _plain(
        price(SiteOutcome(4, 0, 0.0, 0.0, 0.0))
    )
    said = _plain(price(SiteOutcome(4, 2, 6.0, 1.5, 4.0)))
    assert "2 would have found a fragment on some of them. How much later these would start" in said
    assert "1.5" not in said, "the seconds that a replay takes for granted are no result"


def _plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")
