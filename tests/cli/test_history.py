from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.errors import ExitCode
from freetrain.store import Store


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    store = Store.open(tmp_path / "freetrain.db")
    ledger = store.ledger()
    ledger.save_trainers([KnownTrainer("7", "news", "freetrain:min=1", TrainerState.ACTIVE, time.time())])
    ledger.save_fragments(
        [
            fragment("7_0", "7", "n1", 9 * 86400, 8 * 86400, End.RELEASED),
            fragment("7_0", "7", "n1", 7200, 3600, End.PREEMPTED),
            fragment("7_1", "7", "n2", 1800),
            fragment("8_0", "8", "n1", 600, 300, End.COMPLETED),
            Fragment("8_1", "8", "n3", FragmentState.ASKED, time.time(), 3600.0, decision="1:5"),
        ]
    )
    return store


def fragment(
    job: str, trainer: str, node: str, began_s: float, ended_s: float = 0, end: End | None = None
) -> Fragment:
    """Times are so long ago; it runs where it has no end."""
    state = FragmentState.ENDED if end else FragmentState.RUNNING
    now_s = time.time()
    started_s, ended = now_s - began_s, now_s - ended_s if end else None
    return Fragment(job, trainer, node, state, started_s, 86400.0, started_s, ended, end, "1:2")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["history", *arguments])


def rows(*arguments: str) -> list[list[str]]:
    return [line.split("|") for line in run("-P", "-h", *arguments).stdout.splitlines()]


def test_each_time_that_a_node_was_lent_is_a_row(store: Store) -> None:
    shown = rows("--format", "job,user,node,lasted,end,decision")
    assert shown[0] == ["7_0", "news", "n1", "01:00:00", "preempted", "1:2"]
    assert [row[0] for row in shown] == ["7_0", "7_1", "8_0", "8_1"]
    assert shown[1][4] == "running"
    assert shown[3][3:] == ["–", "asked", "1:5"]
    assert run("-P", "-h").stderr.startswith("No daemon is at work here"), "beside what scripts read"


def test_it_goes_back_as_far_as_one_wants() -> None:
    assert len(rows("--since", "30d")) == 5
    an_iso_time = f"{datetime.now().astimezone() - timedelta(minutes=10):%Y-%m-%dT%H:%M:%S}"
    for since in ("10m", "now-10minutes", an_iso_time):
        assert [row[0] for row in rows("--since", since)] == ["7_1", "8_0", "8_1"]
    assert "is not a duration" in run("--since", "long").stderr


def test_one_trainer_user_or_node_can_be_chosen() -> None:
    assert [row[0] for row in rows("--trainer", "8")] == ["8_0", "8_1"]
    assert [row[0] for row in rows("--user", "news")] == ["7_0", "7_1"]
    assert [row[0] for row in rows("--node", "n1")] == ["7_0", "8_0"]
    assert [row[0] for row in rows("--node", "n[1,9]")] == ["7_0", "8_0"]
    assert "Nothing was lent in that time." in run("--node", "n9").stdout
    assert "There is no group of nodes @nope" in run("--node", "@nope").stderr


@pytest.mark.parametrize("command", ["history", "audit", "ledger"])
def test_who_may_not_read_the_database_is_told_what_everybody_may(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("freetrain.client.daemons_ledger.os.access", lambda *_: False)
    result = CliRunner().invoke(cli, [command])
    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert "is for the daemon's account and root." in result.stderr
    assert "'freetrain jobs'" in result.stderr
    assert "--store" not in result.stderr


def test_programs_get_all_of_it() -> None:
    document = json.loads(run("--json").stdout)
    assert (document["format"], document["daemon"]["is_at_work"]) == ("freetrain-history/1", False)
    first = document["fragments"][0]
    assert (first["lasted_s"], first["end"], first["state"]) == (pytest.approx(3600), "preempted", "ended")
