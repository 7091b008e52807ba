"""A directory without room: the training waits or goes on, and what could not be written is said."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from freetrain.elastic.errors import CheckpointError, DirectoryError
from freetrain.elastic.on_disk import files
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_node.agent import Agent
from freetrain.elastic.on_node.workers import AgentEnd, AgentOptions, Signals
from freetrain.elastic.training.checkpoints import Checkpoints
from freetrain.errors import ExitCode
from tests.elastic.harness import Workers, assert_exactly_once, workers

EPOCHS = 10
NO_ROOM = os.strerror(errno.ENOSPC)


def fill(trainer: Workers) -> None:
    (trainer.out / "full").touch()


def make_room(trainer: Workers) -> None:
    (trainer.out / "full").unlink()


@contextlib.contextmanager
def files_of_at_most(max_bytes: int) -> Iterator[None]:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_who_is_left_waits_for_room_and_goes_on(tmp_path: Path) -> None:
    environment = {"EPOCHS": str(EPOCHS), "FULL": "records", "FREETRAIN_LOST_AFTER_S": "2"}
    with workers(tmp_path, "no_room.py", **environment) as trainer:
        trainer.pace(slow=True)
        trainer.start(3, FREETRAIN_MIN_MEMBERS="3")
        trainer.await_world(3)
        fill(trainer)
        trainer.kill("w2")
        trainer.wait_until(
            lambda: all(
                f"{NO_ROOM}. The training goes on as soon as" in trainer.error_of(name) for name in ("w0", "w1")
            ),
            "sentence",
        )
        make_room(trainer)
        trainer.await_world(2)
        trainer.pace(slow=False)
        assert trainer.finish() == {"w0": 0, "w1": 0, "w2": -9}, trainer.errors()
        assert_exactly_once(trainer, EPOCHS)


def test_nobody_is_given_up_while_no_sign_of_life_can_be_written(tmp_path: Path) -> None:
    environment = {
        "EPOCHS": str(EPOCHS),
        "FULL": "records",
        "FREETRAIN_LOST_AFTER_S": "1",
        "FREETRAIN_BEAT_S": "0.1",
    }
    with workers(tmp_path, "no_room.py", **environment) as trainer:
        trainer.pace(slow=True)
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        fill(trainer)
        trainer.await_world(2, steps=12)  # half a second each after the first ten
        make_room(trainer)
        trainer.await_world(2)
        assert trainer.directory.view().number == 1
        trainer.pace(slow=False)
        assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
        assert trainer.directory.view().gone == {"w0": "finished", "w1": "finished"}


def test_signs_of_life_need_no_more_room_than_they_have(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    assert directory.beat("w0", 1)
    before = directory.last_beat("w0")
    with files_of_at_most(len(before)):
        assert directory.beat("w0", 2)
        assert directory.last_beat("w0") != before


@pytest.mark.parametrize("floats", [10, 100_000])
def test_a_checkpoint_without_room_is_a_sentence(tmp_path: Path, floats: int) -> None:
    with files_of_at_most(1000), pytest.raises(CheckpointError, match=r"write the checkpoint .*: File too large"):
        Checkpoints(tmp_path).save({"values": torch.zeros(floats)}, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_training_without_its_last_checkpoint_is_not_complete(tmp_path: Path) -> None:
    with workers(tmp_path, "no_room.py", EPOCHS="1", FULL="checkpoints") as trainer:
        fill(trainer)
        trainer.start()
        assert trainer.finish() == {"w0": ExitCode.STATE_IO}
        assert f"freetrain: cannot write the checkpoint {trainer.root}/checkpoints/" in trainer.error_of("w0")
        assert "Traceback" not in trainer.error_of("w0")
        assert not trainer.directory.finished_path.exists()
        assert trainer.counts(), "what follows the loop was not run"


def test_the_last_to_leave_says_that_it_could_not_save(tmp_path: Path) -> None:
    with workers(tmp_path, "no_room.py", EPOCHS="100", FULL="checkpoints") as trainer:
        trainer.pace(slow=True)
        trainer.start()
        trainer.await_world(1)
        fill(trainer)
        trainer.leave("w0")
        assert trainer.finish() == {"w0": ExitCode.STATE_IO}
        assert f"cannot write the checkpoint {trainer.root}/checkpoints/" in trainer.error_of("w0")
        assert trainer.directory.is_gone("w0") == "left at a step boundary, as asked"


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(files, "create_private", refuse)


def test_what_cannot_be_written_is_a_sentence(tmp_path: Path, no_room: None) -> None:
    with pytest.raises(DirectoryError, match=r"cannot write .*w0.gone: Disk quota exceeded"):
        TrainerDirectory(tmp_path).mark_gone("w0", "left")


def test_a_full_directory_is_noticed_before_anything_is_started(tmp_path: Path) -> None:
    TrainerDirectory.open(tmp_path)
    with files_of_at_most(0), pytest.raises(DirectoryError, match=r"trainer's directory .*: File too large"):
        TrainerDirectory.open(tmp_path)


class FillsUp(TrainerDirectory):
    """Has no room any more once a worker is to be marked as gone, until ``room`` is there."""

    def mark_gone(self, member: str, reason: str) -> bool:
        if not (self.root / "room").exists():
            raise DirectoryError(f"cannot write {self.root}/members: {NO_ROOM}.")
        return super().mark_gone(member, reason)


ENDS_BY_ITS_NUMBER = """
import os, pathlib, sys, time
root = pathlib.Path(os.environ["FREETRAIN_TRAINER"])
if os.environ["FREETRAIN_MEMBER"].endswith("-0"):
    sys.exit(3)
while not (root / "end").exists():
    time.sleep(0.01)
(root / "healthy").touch()
"""


def run_agent(root: Path, script: str, nproc: int) -> AgentEnd:
    directory = FillsUp.open(root)
    return Agent(directory, AgentOptions([sys.executable, "-c", script], nproc), Signals(())).run()


def test_an_agent_lets_healthy_workers_train_on_when_it_cannot_say_that_one_died(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "end").touch()
    ending = run_agent(tmp_path, ENDS_BY_ITS_NUMBER, nproc=2)
    assert (tmp_path / "healthy").exists()
    assert ending.status == ExitCode.STATE_IO
    assert f"directory {tmp_path} cannot be written" in ending.reason
    assert caplog.text.count(NO_ROOM) == 1


def test_a_worker_that_cannot_use_the_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "room").touch()
    ending = run_agent(tmp_path, f"raise SystemExit({int(ExitCode.STATE_IO)})", nproc=1)
    assert ending.status == ExitCode.STATE_IO
    assert "see its own message" in ending.reason
