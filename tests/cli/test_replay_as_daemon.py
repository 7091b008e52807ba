"""The replay as the daemon in a process of its own: the same figures, progress, and what breaks it is said."""

from __future__ import annotations

import json
import os
import signal
from multiprocessing import Pipe, active_children
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from freetrain.cli import replay
from freetrain.cli.main import cli
from freetrain.cli.replay import parallel_replay, replay_command
from freetrain.cli.replay_options import ReplayOptions
from freetrain.errors import FreetrainError, InputError
from freetrain.replay.logs import SiteLog, parse_log_time, read_site_log
from freetrain.replay.logs.model import ReadOptions

LOG = """JobID|State|Submit|Start|End|Timelimit|NNodes|NodeList
1|COMPLETED|2024-06-03T00:00:00|2024-06-03T00:00:00|2024-06-03T01:00:00|02:00:00|2|c[1-2]
2|COMPLETED|2024-06-03T00:00:00|2024-06-03T02:00:00|2024-06-03T05:00:00|04:00:00|1|c1
3|RUNNING|2024-06-03T04:00:00|2024-06-03T04:00:00|Unknown|1-00:00:00|1|c2
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "site.psv"
    found.write_text(LOG)
    return found


@pytest.fixture
def log(path: Path) -> SiteLog:
    return read_site_log([path], ReadOptions())


def options(path: Path, *words: str) -> ReplayOptions:
    with replay_command.make_context("replay", [str(path), *words]) as context:
        return ReplayOptions(
            **{name: value for name, value in context.params.items() if name not in ("logs", "definitions")}
        )


def replayed(path: Path, *words: str) -> dict[str, Any]:
    command = ["replay", str(path), "--trainers", "preset:hpo", "--json", "--quiet", "--no-store", "--no-report"]
    done = CliRunner().invoke(cli, [*command, *words])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figures(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document["outcome"].items() if not name.startswith("solve_")}


def test_beside_the_other_replay_it_comes_to_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    afterwards = figures(replayed(path)["as_daemon"])
    begun = Mock(side_effect=parallel_replay)
    monkeypatch.setattr(replay, "MANY_HOLES", 0)
    monkeypatch.setattr(replay, "parallel_replay", begun)
    assert figures(replayed(path)["as_daemon"]) == afterwards
    begun.assert_called_once()
    assert afterwards["lent_node_hours"] > 3


SHARED = """JobID|State|Submit|Start|End|Timelimit|NNodes|NCPUS|NodeList
1|COMPLETED|2024-06-03T00:00:00|2024-06-03T00:00:00|2024-06-03T01:00:00|02:00:00|2|32|c[1-2]
2|COMPLETED|2024-06-03T02:00:00|2024-06-03T02:00:00|2024-06-03T05:00:00|04:00:00|1|8|c1
3|RUNNING|2024-06-03T04:00:00|2024-06-03T04:00:00|Unknown|1-00:00:00|1|16|c2
"""


def test_parts_of_nodes_are_lent_beside_jobs_where_that_is_asked(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(SHARED)
    window = ("--from", "2024-06-03T00:00:00", "--until", "2024-06-03T05:00:00")
    whole, asked = replayed(path), ("--share", "any", "--task", "cpu=4", *window)
    (tmp_path / "settings.toml").write_text('lend = {share = "any", keep = "cpu=8"}\n')
    parts = replayed(path, *asked)
    shares = parts["shares"]
    assert shares["outcome"]["partly_fitting_task_hours"] == 2 * 3.0
    lent = shares["as_daemon"]["shares"]["outcome"]
    assert 2 * 2.9 < lent["partly_lent_task_hours"] <= 2 * 3.0 == shares["outcome"]["partly_lent_task_hours"]
    assert lent["partly_useful_task_hours"] < lent["partly_lent_task_hours"]
    assert whole["shares"]["as_daemon"] is None
    kept = replayed(path, *asked, "--as", f"daemon={tmp_path / 'settings.toml'}")["shares"]
    assert kept["outcome"]["partly_fitting_task_hours"] == 0
    assert kept["as_daemon"]["shares"]["outcome"]["idle_nodes_lent_task_hours"] > 0
    monkeypatch.setattr(replay, "MANY_HOLES", 0)
    beside = replayed(path, *asked)["shares"]
    assert figures(beside["as_daemon"]) == figures(shares["as_daemon"])


def test_whole_nodes_are_lent_beside_the_parts_whatever_the_settings_say(path: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('lend = {share = "any"}\n')
    settings = ("--as", f"daemon={tmp_path / 'settings.toml'}")
    assert replayed(path, *settings)["as_daemon"]["outcome"]["lent_node_hours"] > 3


def test_what_is_wrong_there_is_said_here(path: Path, log: SiteLog) -> None:
    with (
        parallel_replay(options(path, "--trainers", "preset:none"), log) as wait,
        pytest.raises(InputError) as told,
    ):
        wait(lambda at_s: None)
    assert "no preset 'none'" in told.value.what
    assert told.value.hint


def test_a_process_that_is_killed_is_no_riddle(path: Path, log: SiteLog) -> None:
    with parallel_replay(options(path), log) as wait:
        (process,) = active_children()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(FreetrainError, match=r"broke off.*-9"):
            wait(lambda at_s: None)


def test_it_ends_with_the_command_that_began_it(path: Path, log: SiteLog) -> None:
    with pytest.raises(click.Abort), parallel_replay(options(path), log):
        raise click.Abort
    assert not active_children()


def test_whoever_waits_is_told_how_far_it_is(
    path: Path, log: SiteLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Connection:
        def __init__(self) -> None:
            self.sent: list[Any] = []

        def poll(self) -> bool:
            return True

        def send(self, what: Any) -> None:
            self.sent.append(what)

    news: Any = Connection()
    monkeypatch.setattr(replay, "_BETWEEN_NEWS_S", 0.0)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    replay._work(news, options(path, "--trainers", "preset:hpo"), log)
    *times, answer = news.sent
    assert times == sorted(times)
    assert len(times) > 1
    assert times[-1] < parse_log_time("2024-06-03T04:00:00")
    assert answer.site_impact is not None


def test_where_the_command_was_killed_it_ends_without_a_word(
    path: Path, log: SiteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Pipe()
    ours.close()
    monkeypatch.setattr(replay, "_BETWEEN_NEWS_S", 0.0)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    replay._work(theirs, options(path, "--trainers", "preset:hpo"), log)
    with pytest.raises(BrokenPipeError):
        theirs.send("nobody is there")


def small_log_as_long(monkeypatch: pytest.MonkeyPatch, budget_s: float) -> None:
    monkeypatch.setattr(replay, "_MANY_LOOKS", 0)
    monkeypatch.setattr(replay, "_ESTIMATE_S", budget_s)


def test_a_long_log_is_estimated_unless_all_of_it_is_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_log_as_long(monkeypatch, 0.001)
    found = replayed(path)
    assert found["as_daemon"] is None
    assert found["estimate"]["blocks"] == found["estimate"]["of_blocks"]
    exact = replayed(path, "--exact")
    assert exact["estimate"] is None
    lent = exact["as_daemon"]["outcome"]["lent_node_hours"]
    assert found["estimate"]["lent_node_hours"]["value"] == pytest.approx(lent, rel=0.05)


def test_a_log_that_is_replayed_as_quickly_as_estimated_is_replayed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_log_as_long(monkeypatch, 600.0)
    found = replayed(path)
    assert found["estimate"] is None
    assert found["as_daemon"] is not None


def test_what_the_holes_allow_is_printed_before_the_estimate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_log_as_long(monkeypatch, 0.001)
    done = CliRunner().invoke(cli, ["replay", str(path), "--trainers", "preset:hpo", "--no-store", "--no-report"])
    assert done.exit_code == 0, done.output
    said = done.stdout
    assert said.index("What the holes allow") < said.index("What the daemon would have got, estimated")
    assert "95 % interval" in said
