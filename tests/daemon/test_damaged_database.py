"""A database that cannot be used is said in one sentence, and the remedy that the sentence names works."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.config import Config, Loaded
from freetrain.core.fragment import FragmentState
from freetrain.daemon.service import Service
from freetrain.errors import ExitCode, StateError
from freetrain.store import engine
from freetrain.store.store import DAEMONS_STORE, Store
from tests.daemon.fake_slurm import FakeSlurm


@pytest.fixture
def config(tmp_path: Path) -> Config:
    state = {"directory": str(tmp_path / "state"), "stop_file": str(tmp_path / "STOP")}
    return Config.model_validate({"lend": {"mode": "act"}, "state": state, "pace": {"poll": 5.0}})


@pytest.fixture
def slurm(config: Config) -> FakeSlurm:
    """A Slurm on which a daemon has lent four nodes, and ended."""
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    look(config, slurm)
    look(config, slurm)
    return slurm


def look(config: Config, slurm: FakeSlurm) -> None:
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)


def database(config: Config) -> Path:
    return Path(config.state.directory) / DAEMONS_STORE


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def overwritten(path: Path) -> None:
    path.write_bytes(b"\0garbage\xff" * 5000)


def written_into(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:16384] + b"\xa5" * (len(whole) - 16384))


def another_programs(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE bookmarks (url TEXT)")


def without_a_table(path: Path) -> None:
    execute(path, "DROP TABLE fragments")


def of_a_later_schema(path: Path) -> None:
    execute(path, "UPDATE alembic_version SET version_num = '0999'")


def with_a_state_that_there_is_not(path: Path) -> None:
    execute(path, "UPDATE fragments SET state = 'flying'")


def with_json_that_is_none(path: Path) -> None:
    execute(path, "UPDATE live_trainers SET observations = '[[1'")


DAMAGE = [
    cut_short, overwritten, written_into, another_programs, without_a_table, of_a_later_schema,
    with_a_state_that_there_is_not, with_json_that_is_none,
]  # fmt: skip


def status_after(damage: Callable[[Path], None]) -> ExitCode:
    """Where only another freetrain helps, systemd is not to start the daemon again."""
    return ExitCode.CONFIGURATION if damage is of_a_later_schema else ExitCode.STATE_IO


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_what_is_wrong_is_one_sentence_and_its_remedy_works(
    config: Config, slurm: FakeSlurm, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(config)
    damage(path)
    told = len(slurm.told)
    with pytest.raises(StateError, match=str(path)) as refused:
        look(config, slurm)
    assert refused.value.exit_code is status_after(damage)
    assert "\n" not in refused.value.what
    assert f"Move {path}, {path}-wal and {path}-shm away" in refused.value.hint
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)
    look(config, slurm)
    found = Store.open_existing(path).ledger().open_fragments()
    assert {fragment.node for fragment in found} == set(slurm.running("101")) == {"n1", "n2", "n3", "n4"}
    assert {fragment.state for fragment in found} == {FragmentState.RUNNING}
    assert not [command for command in slurm.told[told:] if "ReqNodeList" in str(command) or "release" in command]


def test_an_empty_file_is_a_new_database(config: Config, slurm: FakeSlurm) -> None:
    path = database(config)
    path.write_bytes(b"")
    look(config, slurm)
    assert len(Store.open_existing(path).ledger().open_fragments()) == 4


@pytest.mark.parametrize(
    "damage", [overwritten, another_programs, of_a_later_schema], ids=lambda damage: damage.__name__
)
def test_who_looks_into_it_reads_the_same_sentence(
    config: Config, slurm: FakeSlurm, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    damage(database(config))
    file = tmp_path / "freetrain.toml"
    file.write_text(f"[state]\ndirectory = '{config.state.directory}'\n")
    result = CliRunner().invoke(cli, ["audit", "--config", str(file)])
    assert result.exit_code == status_after(damage)
    assert str(database(config)) in result.stderr


def test_a_database_that_is_damaged_while_the_daemon_runs_ends_it_with_a_sentence(
    config: Config, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freetrain.daemon.timetable._BETWEEN_LOOKS_S", 0.01)
    snapshot = slurm.snapshot
    looks: list[int] = []

    def damage_before_the_second_look() -> object:
        looks.append(1)
        if len(looks) == 3:  # the first of the three is no look
            slurm.submit_array("freetrain:min=1")
            without_a_table(database(config))
            execute(database(config), "DROP TABLE live_trainers")
        return snapshot()

    monkeypatch.setattr(slurm, "snapshot", damage_before_the_second_look)
    monkeypatch.setattr("freetrain.daemon.timetable.Timetable.wait", lambda self, look_s: None)
    with pytest.raises(StateError, match="is damaged") as ended:
        Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=5)
    assert ended.value.exit_code is ExitCode.STATE_IO
    assert len(slurm.running("101")) == 4


def test_a_disk_that_becomes_full_is_said_once_and_ends_nothing(
    config: Config, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure = engine._configure

    def on_a_full_disk(connection: sqlite3.Connection, record: object) -> None:
        configure(connection, record)
        connection.execute("PRAGMA max_page_count = 1")  # no page more than there are

    monkeypatch.setattr(engine, "_configure", on_a_full_disk)
    for _ in range(400):
        slurm.submit_array("freetrain:min=1,name=" + "x" * 60, tasks=1)
    monkeypatch.setattr("freetrain.daemon.timetable.Timetable.wait", lambda *_: None)
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=3)
    assert caplog.text.count("cannot be written: the disk is full. Nothing is concluded from that") == 1
