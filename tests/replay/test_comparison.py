from __future__ import annotations

from typing import Any

import pytest

from freetrain.errors import InputError
from freetrain.replay.comparison import compare_runs, compare_sweep
from freetrain.replay.report import render_comparison
from freetrain.store import RunStatus, RunSummary

OUTCOME = {"idle_node_hours": 100.0, "lent_node_hours": 80.0, "u_work": 0.9, "u_oracle": 0.95, "evictions": 7}
SITE = {"site_delay_mean_s": 0.5, "site_delay_max_s": 2.0}
DAEMON = {"outcome": {**OUTCOME, "lent_node_hours": 60.0, "u_work": 0.7}, "site": SITE}


def run(number: int, settings: dict[str, Any], status: RunStatus = RunStatus.COMPLETE, **more: Any) -> RunSummary:
    outcome = {**OUTCOME, **more} if status is RunStatus.COMPLETE else {}
    return RunSummary(number, "", "1", status, 0.0, 1.0, 0.0, 1.0, 4, 0, settings, outcome)


def cell(number: int, place: int, policy: str, **more: Any) -> RunSummary:
    return run(number, {"sweep": "s", "cell": f"k{place}", "number": place, "varied": {"policy": policy}}, **more)


def test_a_sweep_stands_in_its_own_order_whenever_its_replays_were_done() -> None:
    comparison = compare_sweep([cell(5, 0, "a"), cell(4, 2, "c"), cell(2, 1, "b")], None)
    assert (comparison.title, comparison.axes) == ("s", ("policy",))
    assert [each.labels["policy"] for each in comparison.runs] == ["a", "b", "c"]


def test_of_a_replay_that_was_done_twice_the_newest_counts() -> None:
    comparison = compare_sweep([cell(9, 0, "a"), cell(5, 0, "a")], "s")
    assert [each.id for each in comparison.runs] == [9]


def test_the_daemons_way_is_shown_where_it_is_known() -> None:
    both, allowed = compare_sweep([cell(2, 1, "b"), cell(1, 0, "a", as_daemon=DAEMON)], "s").runs
    assert (both.shown.work, both.allowed.work, both.delay_mean_s) == (0.7, 0.9, 0.5)
    assert (both.shown.lent, allowed.shown.lent, allowed.daemon) == (0.6, 0.8, None)


def test_what_was_lent_in_parts_is_the_daemons_where_it_was_asked() -> None:
    asked = {"replay": OUTCOME, "as_daemon": {**DAEMON, "shares": {}}}
    shares = ({"outcome": {}, "replay": None, "as_daemon": None}, {**asked, "as_daemon": None}, asked, None)
    runs = compare_sweep([cell(9 - place, place, "a", shares=each) for place, each in enumerate(shares)], "s").runs
    assert [each.parts and each.parts.lent for each in runs] == [None, 0.8, 0.6, None]


def test_single_runs_are_told_apart_by_the_settings_in_which_they_differ() -> None:
    runs = [run(1, {"policy": "a", "poll_s": 0}), run(2, {"policy": "b", "poll_s": 0, "start_s": 3})]
    comparison = compare_runs(runs, [2, 1])
    assert comparison.axes == ("policy", "start_s")
    assert [each.labels for each in comparison.runs] == [
        {"policy": "b", "start_s": "3"},
        {"policy": "a", "start_s": "–"},
    ]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="There is no run 7"):
        compare_runs([run(1, {})], [1, 7])
    with pytest.raises(InputError, match="Run 1 is no replay that came to its end"):
        compare_runs([run(1, {}, RunStatus.INTERRUPTED)], [1])
    with pytest.raises(InputError, match="No sweep has been recorded yet"):
        compare_sweep([run(1, {})], None)
    with pytest.raises(InputError, match=r"no sweep 'x' in the store; there are s\."):
        compare_sweep([cell(1, 0, "a")], "x")


def test_the_page_has_a_bar_for_each_run_and_nothing_to_load() -> None:
    page = render_comparison(
        compare_sweep([cell(2, 1, "<b>"), cell(1, 0, "a", as_daemon=DAEMON, worth={"energy_kwh": 12.0})], "s")
    )
    assert "lent in parts" not in page
    assert page.count('class="track"') == 2
    assert 'style="width: 70.0%"' in page
    assert 'style="left: 90.0%"' in page
    assert "<b>" not in page.replace("<b style", "")
    assert "12.0" in page
    assert ".bars tbody th { white-space: nowrap; }" in page, "equal-share would take two lines"
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    in_parts = render_comparison(compare_sweep([cell(1, 0, "a", shares={"replay": OUTCOME})], "s"))
    assert "lent in parts" in in_parts
