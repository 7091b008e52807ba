"""A machine that lacks something for a while: a look is given up and tried again, and the daemon goes on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from freetrain.config import Config, Loaded
from freetrain.core.fragment import Fragment
from freetrain.daemon.executor import Executor
from freetrain.daemon.live_cluster import LiveCluster
from freetrain.daemon.reports.notices import Notices
from freetrain.daemon.reports.status import StatusFile, read_status
from freetrain.daemon.service import Service
from freetrain.errors import StateError
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import SlurmUnreachableError
from freetrain.store.journal import RunJournal
from freetrain.store.ledger import Ledger
from freetrain.store.store import DAEMONS_STORE, Store
from tests.daemon.fake_slurm import FakeSlurm

SHORTAGES = [
    *(OSError(number, os.strerror(number)) for number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENOSPC)),
    MemoryError(),
    StateError("The store x cannot be written: the disk is full.", passes=True),
]
PLACES = [
    (LiveCluster, "observe"),
    (LiveCluster, "act"),
    (Ledger, "save_fragments"),
    (Ledger, "save_trainers"),
    (Executor, "carry_out"),
    (Ledger, "lent_spans"),
    (RunJournal, "record"),
]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    state = {"directory": str(tmp_path / "state"), "stop_file": str(tmp_path / "STOP")}
    return Config.model_validate({"lend": {"mode": "act"}, "state": state, "pace": {"poll": 5.0}})


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm on which a training waits, and looks that follow each other at once."""
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    monkeypatch.setattr("freetrain.daemon.service.Timetable.wait", lambda *_: slurm.advance(5.0))
    return slurm


def failing_twice(what: Callable[..., object], error: Exception) -> Callable[..., object]:
    """A function that fails at its first two calls."""
    calls = 0

    def fails(*arguments: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise error
        return what(*arguments, **more)

    return fails


def books(config: Config) -> list[Fragment]:
    return Store.open_existing(Path(config.state.directory) / DAEMONS_STORE).ledger().open_fragments()


def look(config: Config, slurm: FakeSlurm, cycles: int) -> None:
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles)


# Every shortage, and at every place two of them.
@pytest.mark.parametrize(
    ("owner", "method", "error"),
    [(*place, error) for place, error in zip(2 * PLACES, cycle(SHORTAGES), strict=False)],
)
def test_a_look_is_given_up_said_once_and_tried_again(
    config: Config, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    owner: type, method: str, error: Exception,
) -> None:  # fmt: skip
    caplog.set_level("INFO")
    monkeypatch.setattr(owner, method, failing_twice(getattr(owner, method), error))
    look(config, slurm, 6)
    running = {job.id for job in slurm.jobs.values() if job.state.has_nodes}
    assert len(running) == 4
    assert {fragment.job for fragment in books(config)} == running
    assert len({fragment.node for fragment in books(config)}) == 4
    assert caplog.text.count("Nothing is concluded from that, and nothing done.") == 1
    assert caplog.text.count("looks succeed again") == 1


def test_an_error_that_does_not_pass_ends_the_daemon(
    config: Config, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "save_fragments", failing_twice(Ledger.save_fragments, StateError("damaged")))
    with pytest.raises(StateError, match="damaged"):
        look(config, slurm, 6)


@pytest.mark.parametrize(
    ("owner", "method"),
    [(StatusFile, "looked"), (Notices, "looked"), ("freetrain.daemon.publisher.Metrics", "looked")],
)
def test_whatever_a_report_raises_the_daemon_and_the_other_reports_go_on(
    config: Config, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    owner: type | str, method: str,
) -> None:  # fmt: skip
    told: list[int] = []

    def fails(*_arguments: object) -> None:
        told.append(1)
        if len(told) > (owner is StatusFile):  # the daemon publishes once before it looks
            raise RuntimeError("can't start new thread")

    target = f"{owner}.{method}" if isinstance(owner, str) else f"{owner.__module__}.{owner.__name__}.{method}"
    monkeypatch.setattr(target, fails)
    look(config, slurm, 3)
    assert len(told) >= 3
    assert caplog.text.count("this look is not in") == 1
    assert len(books(config)) == 4
    if owner is not StatusFile:
        assert read_status(Path(config.state.directory)).look is not None


@pytest.mark.parametrize("error", [OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)), MemoryError()])
def test_a_command_of_slurms_that_cannot_be_started_is_no_answer(error: Exception) -> None:
    def run(*_arguments: object) -> None:
        raise error

    with pytest.raises(SlurmUnreachableError, match="squeue cannot be started on this machine"):
        CommandLine(run=run).snapshot()  # type: ignore[arg-type]


def test_a_database_that_is_removed_meanwhile_is_said_to_be(
    config: Config, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Path(config.state.directory) / DAEMONS_STORE

    def remove(*_arguments: object) -> None:
        for path in database.parent.glob(f"{DAEMONS_STORE}*"):
            path.unlink()

    monkeypatch.setattr("freetrain.daemon.service.Timetable.wait", remove)
    with pytest.raises(StateError, match="has been removed or emptied while it was in use") as caught:
        look(config, slurm, 3)
    assert caught.value.hint.startswith("Start the daemon again: it begins a new one")
    monkeypatch.setattr("freetrain.daemon.service.Timetable.wait", lambda *_: slurm.advance(5.0))
    look(config, slurm, 2)
    assert len(books(config)) == 4
