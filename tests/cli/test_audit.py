from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from freetrain.store import Store

REFUSED = "scontrol: error: Invalid job id specified"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The database of a daemon that has done nothing."""
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    return Store.open(tmp_path / "freetrain.db")


@pytest.fixture
def began_s(empty: Store) -> float:
    """Now, where commands were given nine days, two hours and five minutes ago."""
    now_s = time.time()
    ledger = empty.ledger()
    release, end = ("scontrol", "release"), ("scancel", "7_1", "--signal=TERM KILL")
    ledger.complete_command(
        ledger.record_command(now_s - 9 * 86400, (*release, "7_0"), "grow 7", "1:1"), "done", 0
    )
    ledger.complete_command(ledger.record_command(now_s - 7200, (*release, "7_1"), "grow 7", "1:2"), REFUSED, 1)
    ledger.complete_command(ledger.record_command(now_s - 300, end, "shrink 7", "1:3"), "done", 0)
    ledger.record_command(now_s - 299, (), "freetrain pause", None, "paused", "root (sudo by alice)")
    return now_s


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments])


def whys(*arguments: str) -> list[str]:
    return run("-P", "-h", "--format", "why", *arguments).stdout.splitlines()


@pytest.mark.usefixtures("began_s")
def test_each_command_is_a_row_oldest_first() -> None:
    shown = run("-P", "-h", "-o", "actor,decision,why,command,result,code")
    assert shown.stdout.splitlines() == [
        f"daemon|1:2|grow 7|scontrol release 7_1|{REFUSED}|1",
        "daemon|1:3|shrink 7|scancel 7_1 '--signal=TERM KILL'|done|0",
        "root (sudo by alice)|–|freetrain pause|–|paused|–",
    ]
    assert shown.stderr.startswith("No daemon is at work here"), "beside what scripts read"


@pytest.mark.usefixtures("began_s")
def test_it_goes_back_as_far_as_one_wants() -> None:
    assert whys("--since", "30d") == ["grow 7", "grow 7", "shrink 7", "freetrain pause"]
    assert whys("--since", "10m") == ["shrink 7", "freetrain pause"]
    assert "Nothing was done in that time." in run("--since", "1m").stdout
    refused = run("--since", "long")
    assert (refused.exit_code, "is not a duration" in refused.stderr) == (ExitCode.USAGE, True)


@pytest.mark.usefixtures("began_s")
def test_what_one_decision_led_to_can_be_chosen() -> None:
    assert whys("--decision", "1:3") == ["shrink 7"]
    assert whys("--decision", "1:1") == [], "that was longer ago"
    assert whys("--decision", "1:1", "--since", "30d") == ["grow 7"]


def test_programs_get_all_of_it(began_s: float) -> None:
    document = json.loads(run("--json", "--since", "10m").stdout)
    assert (document["format"], document["daemon"]["is_at_work"]) == ("freetrain-audit/1", False)
    daemons, persons = document["commands"]
    assert daemons == {
        "time": began_s - 300,
        "actor": "daemon",
        "why": "shrink 7",
        "decision": "1:3",
        "command": ["scancel", "7_1", "--signal=TERM KILL"],
        "result": "done",
        "return_code": 0,
    }
    assert (persons["decision"], persons["command"], persons["return_code"]) == (None, [], None)


def test_nothing_was_done_yet(empty: Store) -> None:
    assert run("-P", "-h").stdout == ""
    empty.path.unlink()
    result = run()
    assert (result.exit_code, "No daemon has worked here yet" in result.stderr) == (ExitCode.STATE_IO, True)
