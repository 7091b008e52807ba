from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.reports.status import LookStatus, NodeGroup, RecentNodes, StatusFile, read_status, with_look

LOOK = LookStatus(1_800_000_010.0, 0.1, nodes=(NodeGroup("n[1-3]", "lent", "7"),), idle_nodes=5)


def test_looks_of_five_minutes_are_one_period_with_their_mean() -> None:
    recent = with_look((), 310.0, 10, 4)
    recent = with_look(recent, 320.0, 20, 4)
    recent = with_look(recent, 590.0, 0, 1)
    recent = with_look(recent, 1250.0, 7, 7)
    assert recent == (RecentNodes(300.0, 3, 10.0, 3.0), RecentNodes(1200.0, 1, 7, 7)), (
        "nothing is known in between"
    )


def test_a_day_is_kept_and_a_clock_that_was_put_back_begins_anew() -> None:
    recent: tuple[RecentNodes, ...] = ()
    for minute in range(0, 2 * 1440, 5):
        recent = with_look(recent, 60.0 * minute, 1, 0)
    assert len(recent) == 288
    assert with_look(recent, 600.0, 1, 0) == (RecentNodes(600.0, 1, 1, 0),)


def test_the_next_daemon_goes_on_from_what_the_last_one_published(tmp_path: Path) -> None:
    StatusFile(tmp_path, 10.0, False).looked(Config(), LOOK)
    after = StatusFile(tmp_path, 10.0, False)
    after.looked(Config(), None)
    assert read_status(tmp_path).recent == (RecentNodes(1_800_000_000.0, 1, 5, 3),)
    after.looked(Config(), replace(LOOK, time_s=LOOK.time_s + 10, idle_nodes=6))
    after.silent("no answer")
    assert read_status(tmp_path).recent == (RecentNodes(1_800_000_000.0, 2, 5.5, 3),)
