"""What the report says in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.trainer import Trainer
from freetrain.replay.outcome import SiteOutcome
from freetrain.replay.report import ReportInput
from freetrain.replay.report.sentences import (
    about_plateau,
    headline,
    parts_of_idle_time,
    tiles,
    work_done,
)
from freetrain.replay.study import Study
from tests.replay.report.conftest import make_holes, make_record


@pytest.fixture
def study(daemon_report: ReportInput) -> Study:
    """Round figures in place of those that came out."""
    study = daemon_report.study
    assert study.as_daemon is not None
    known = {"idle_node_hours": 200.0, "dedicated_nodes": 8.0, "samples": 1e9}
    allowed = replace(study.outcome, **known, lent_node_hours=199.0, u_work=0.951, u_oracle=0.97)
    daemon = replace(
        study.as_daemon.outcome, **known, lent_node_hours=150.0, useful_node_hours=120.0, u_work=0.6, work=7200.0,
        evictions=90, forced_rescales=30, rescales=5, starts=1,
    )  # fmt: skip
    site = SiteOutcome(40, 10, 20.0, 0.5, 4.0)
    return replace(study, outcome=allowed, as_daemon=replace(study.as_daemon, outcome=daemon, site=site))


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_headline_is_what_the_daemon_would_have_got(study: Study) -> None:
    assert plain(headline(study)) == (
        "In 24 hours, 200 node-hours were idle. The daemon would have lent 75.0 % of that and reached 60.0 % of "
        "the work that the same trainers do on 8 nodes of their own."
    )


def test_without_the_daemon_the_headline_promises_only_what_holes_allow(study: Study) -> None:
    assert plain(headline(replace(study, as_daemon=None))) == (
        "In 24 hours, 200 node-hours were idle. They allow 95.1 % of the work that the same trainers do on 8 "
        "nodes of their own."
    )


def test_the_key_figures_are_the_daemons_with_what_holes_allow_and_the_site_feels(study: Study) -> None:
    said = {tile.name: (plain(tile.value), plain(tile.meaning)) for tile in tiles(study, "speedup")}
    assert said["of them lent"][0] == "75.0 %"
    figure, meaning = said["of a dedicated machine’s work"]
    assert figure == "60.0 %"
    assert meaning == (
        "of the same trainers on 8 nodes of their own: as much training as one node does in 2.0 hours; the holes "
        "allow 95.1 %"
    )
    assert said["of the site’s jobs met fragments"] == ("25.0 %", "10 of 40 jobs that started on idle nodes")


def test_forced_rescales_are_distinguished_from_the_nodes_that_were_taken_back(study: Study) -> None:
    lost = next(tile for tile in tiles(study, "speedup") if tile.name == "of lent time lost")
    assert plain(lost.value) == "20.0 %"
    assert plain(lost.meaning) == "to 30 forced rescales, 5 others and 1 start; 90 nodes taken back"


def test_the_parts_of_idle_time_make_a_whole_and_are_rounded_alike(daemon_report: ReportInput) -> None:
    done = daemon_report.study.as_daemon
    assert done is not None
    parts = parts_of_idle_time(done.outcome, done.record)
    assert [kind for kind, _, _ in parts] == ["useful", "starting", "lost", "unlent"]
    assert sum(node_hours for _, _, node_hours in parts) == pytest.approx(done.outcome.idle_node_hours, rel=1e-4)
    allowed = parts_of_idle_time(daemon_report.study.outcome, daemon_report.study.record)
    assert [kind for kind, _, _ in allowed] == ["useful", "lost", "unlent"]


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("speedup", "as much training as one node does in 2,000 hours"),
        ("weighted", "as much training as one node does in 2,000 hours, weights counted in"),
        ("throughput", "7.20 million samples, weights counted in"),
        ("own:deadline", "7.20 million in the unit of own:deadline"),
    ],
)
def test_work_is_told_in_the_unit_of_what_is_maximised(objective: str, said: str) -> None:
    assert plain(work_done(objective, 7.2e6)) == said


TWO_NODES = ((1, 10.0), (2, 20.0))


def trainers(count: int) -> tuple[Trainer, ...]:
    return tuple(Trainer(f"t{number}", TWO_NODES) for number in range(count))


def test_idle_nodes_beyond_what_the_trainers_can_use_are_a_plateau() -> None:
    holes = make_holes([(node, 0, 3600) for node in range(10)], 10, 3600)
    runs = make_record(holes, trainers(9), max_running=3).runs
    assert plain(about_plateau(holes, runs, 3)) == (
        "3 trainers at once can use 6 nodes at most: 4.0 idle node-hours, 40.0 % of all, lay above that. About 5 "
        "(--max-running 5) could use 99 % of all."
    )


def test_where_more_would_not_help_nothing_is_said() -> None:
    holes = make_holes([(node, 0, 3600) for node in range(6)], 10, 3600)
    assert about_plateau(holes, make_record(holes, trainers(9), max_running=3).runs, 3) == ""
    assert about_plateau(holes, (), 3) == ""


def test_a_peak_of_less_than_one_percent_does_not_count() -> None:
    rows = [(0, 0.0, 100_000.0), *((node, 10.0, 20.0) for node in range(1, 20))]
    holes = make_holes(rows, 20, 100_000)
    assert about_plateau(holes, make_record(holes, trainers(1), max_running=1).runs, 1) == ""


def test_who_lacks_trainers_is_told_so_and_not_to_raise_the_limit() -> None:
    holes = make_holes([(node, 0, 3600) for node in range(10)], 10, 3600)
    sentence = about_plateau(holes, make_record(holes, trainers(2), max_running=5).runs, 5)
    assert "--max-running" not in sentence
    assert "No more trainers came" in sentence
