from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.config.sections import State
from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition
from freetrain.daemon.controls.site_orders import OrdersReader, read_drains
from freetrain.daemon.state_directory import claim
from freetrain.slurm.command_line import CommandLine
from freetrain.store import Store
from tests.facts import node

NODES = tuple(f"n{number:03}" for number in range(1, 7))
FRAGMENT = Job("7_0", "7", "news", "freetrain", JobState.RUNNING, nodes=frozenset({"n002"}))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of a daemon whose Slurm has six nodes, the last one in another partition."""
    directory = tmp_path / "state"
    directory.mkdir()
    config = tmp_path / "freetrain.toml"
    config.write_text(f'[slurm]\nbackend = "cli"\n[state]\ndirectory = "{directory}"\n')
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    running(monkeypatch)
    return directory


def running(monkeypatch: pytest.MonkeyPatch, *jobs: Job) -> None:
    partitions = {"freetrain": Partition("freetrain", frozenset(NODES[:5]))}
    snapshot = Snapshot(0.0, tuple(node(name) for name in NODES), jobs, (), partitions)
    monkeypatch.setattr(CommandLine, "snapshot", lambda _: snapshot)


@pytest.fixture
def daemon(state: Path) -> Iterator[None]:
    """A daemon works there, though it never looks."""
    with claim(state, mounts=""):
        yield


def freetrain(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def heed(state: Path) -> None:
    """The daemon looks."""
    reader, settings = OrdersReader(), State(directory=str(state))
    reader.read(settings, time.time())
    reader.note_heeded(settings)


def drained(state: Path) -> set[str]:
    return {node for drain in read_drains(state, time.time()) for node in drain.nodes}


@pytest.mark.usefixtures("daemon")
def test_nodes_are_drained_listed_and_undrained(state: Path) -> None:
    assert freetrain("drain").stdout.endswith("No node is drained.\n")
    assert freetrain("drain", "n[001-003]", "--for", "2h").exit_code == 0
    assert freetrain("drain", "n005").exit_code == 0
    listed = json.loads(freetrain("drain", "--json").stdout)
    assert [row["nodes"] for row in listed["drains"]] == [["n001", "n002", "n003"], ["n005"]]
    assert listed["drains"][0]["until"] == pytest.approx(time.time() + 7200, abs=60)
    assert listed["drains"][1]["until"] is None
    assert "n[001-003]" in freetrain("drain").stdout
    assert freetrain("drain", "-P", "-h", "-o", "nodes,count").stdout == "n[001-003]|3\nn005|1\n"
    assert freetrain("undrain", "n[002,005]").exit_code == 0
    assert drained(state) == {"n001", "n003"}


@pytest.mark.usefixtures("daemon")
def test_a_group_of_nodes_is_drained_and_undrained(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "groups.conf").write_text("[Main]\ndefault: site\n[site]\nmap: echo n[001-003]\n")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path))
    freetrain("drain", "@rack1,n005")
    assert drained(state) == {"n001", "n002", "n003", "n005"}
    freetrain("undrain", "@rack1")
    assert drained(state) == {"n005"}


@pytest.mark.usefixtures("daemon")
def test_the_audit_tells_of_it(state: Path) -> None:
    ledger = Store.open(state / "freetrain.db").ledger()
    freetrain("drain", "n[001-002]", "--until", "2999-01-31T08:00:00Z")
    freetrain("undrain", "n002")
    assert [(row.why, row.result) for row in ledger.commands()] == [
        ("freetrain drain n[001-002]", "drained until 2999-01-31 08:00:00Z"), ("freetrain undrain n002", "done"),
    ]  # fmt: skip


@pytest.mark.usefixtures("daemon")
def test_a_dry_run_changes_nothing(state: Path) -> None:
    said = freetrain("drain", "n[001-002]", "--dry-run").stdout
    assert said == "would take n[001-002] back and lend none of them\n"
    assert drained(state) == set()
    freetrain("drain", "n001")
    assert freetrain("undrain", "n001", "--dry-run").stdout == "would lend n001 again\n"
    assert drained(state) == {"n001"}


@pytest.mark.usefixtures("daemon")
def test_a_node_that_is_drained_again_has_its_new_end(state: Path) -> None:
    freetrain("drain", "n[001-002]", "--for", "2h")
    freetrain("drain", "n001", "--until", "2999-01-31T08:00")
    ends = {node: drain.end_s for drain in read_drains(state, time.time()) for node in drain.nodes}
    assert ends["n001"] > ends["n002"] + 1e9


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("drain", "n[001-009]"), "Slurm has no node n[007-009]"),
        (("drain", "n[001-"), "No list of nodes: 'n[001-'"),
        (("drain", ""), "names no node"),
        (("drain", "n001,@nope"), "There is no group of nodes @nope"),
        (("undrain", "@nope"), "There is no group of nodes @nope"),
        (("drain", "n001", "--for", "soon"), "'soon'"),
        (("drain", "n001", "--until", "tomorrow"), "'tomorrow' is not a time"),
        (("drain", "n001", "--until", "2020-01-01"), "has passed"),
        (("drain", "n001", "--until", "2999-01-01", "--for", "1h"), "Give one of them"),
        (("undrain", "n001"), "n001 is not drained"),
    ],
)
def test_what_cannot_be_meant_is_said_and_changes_nothing(
    state: Path, arguments: tuple[str, ...], says: str
) -> None:
    result = freetrain(*arguments)
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr
    assert drained(state) == set()


@pytest.mark.usefixtures("daemon")
def test_a_node_outside_the_partition_is_named(state: Path) -> None:
    result = freetrain("drain", "n[005-006]")
    assert "n006 is not in partition freetrain" in result.stderr
    assert drained(state) == {"n005", "n006"}


def test_the_list_begins_with_how_the_daemon_stands(state: Path) -> None:
    listed = freetrain("drain").stdout.splitlines()
    assert listed[0].startswith("No daemon is at work here")
    assert listed[-1] == "No node is drained."
    assert json.loads(freetrain("drain", "--json").stdout)["daemon"]["is_at_work"] is False


def test_without_a_daemon_it_counts_from_the_next_start(state: Path) -> None:
    result = freetrain("drain", "n001")
    assert (result.exit_code, "no daemon works" in result.stderr) == (0, True)
    assert drained(state) == {"n001"}
    result = freetrain("drain", "n001", "--wait")
    assert (result.exit_code, "No daemon works" in result.stderr) == (75, True), result.stderr


@pytest.mark.usefixtures("daemon")
def test_waiting_ends_when_the_daemon_has_looked_and_no_fragment_is_left(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter(range(10))

    def sleep(_: float) -> None:
        match next(tries):
            case 0:
                heed(state)
            case 2:
                running(monkeypatch)

    running(monkeypatch, FRAGMENT)
    monkeypatch.setattr("freetrain.cli.orders.time.sleep", sleep)
    result = freetrain("drain", "n[001-003]", "--wait")
    assert result.exit_code == 0, result.stderr
    assert next(tries) == 3


@pytest.mark.usefixtures("daemon")
def test_who_waited_too_long_is_told_what_is_left(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = freetrain("drain", "n001", "--wait", "--timeout", "0")
    assert (result.exit_code, "the daemon has not looked yet" in result.stderr) == (75, True), result.stderr
    running(monkeypatch, FRAGMENT)
    result = freetrain("drain", "n002", "--wait", "--timeout", "0")
    assert (result.exit_code, "7_0 on n002" in result.stderr) == (75, True), result.stderr
    assert drained(state) == {"n001", "n002"}
