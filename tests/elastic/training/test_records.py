"""Checkpoints are written one at a time, while the training goes on; what goes wrong is told when a step ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.errors import CheckpointError
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.training.checkpoints import Checkpoints
from freetrain.elastic.training.records import RecordOptions, Records
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.worlds.world import World

PATIENCE_S = 30.0


class Disk:
    """Writes nothing while it is stuck."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works = threading.Event()
        self.works.set()
        self.fails_with: Exception | None = None
        self._save = Checkpoints.save
        monkeypatch.setattr(Checkpoints, "save", lambda *arguments: self.save(*arguments))

    def save(self, checkpoints: Checkpoints, state: dict[str, Any], step: int) -> Path:
        assert self.works.wait(PATIENCE_S), "the training waits for its checkpoint"
        if self.fails_with is not None:
            raise self.fails_with
        return self._save(checkpoints, state, step)


class Trained:
    """A training of rank 0, whose parameter is the number of its last step."""

    def __init__(self, folder: Path, *, in_background: bool = True) -> None:
        self.directory = TrainerDirectory.open(folder)
        self.module = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(self.module.parameters(), 0.1)
        self.state = TrainingState(self.module, [optimizer], Sampler(8, 100), {})
        self.records = Records(
            self.directory,
            self.state,
            RecordOptions(
                progress_every_s=1e6,
                checkpoint_every_s=1e6,
                keep_checkpoints=9,
                background_checkpoints=in_background,
            ),
        )
        generation = SimpleNamespace(number=1, world=1, cause="start", servers=())
        self.records.enter(cast(World, SimpleNamespace(rank=0, size=1, generation=generation)), nodes=1)

    def step(self, *, wants_checkpoint: bool = False) -> None:
        self.state.note_step(1)
        torch.nn.init.constant_(self.module.weight, self.state.step)
        self.records.add(1, 0.0, 0.0, wants_checkpoint=wants_checkpoint)

    def step_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.step()

    def written(self) -> list[tuple[int, float]]:
        """Steps, and the parameter then, of all checkpoints, oldest first."""
        paths = sorted(self.directory.checkpoints.glob("step-*.pt"))
        states = [torch.load(path, weights_only=True) for path in paths]
        return [(state["step"], float(state["model"]["weight"])) for state in states]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_checkpoint_is_of_its_step_however_far_the_training_is_when_it_is_written(
    tmp_path: Path, disk: Disk
) -> None:
    training = Trained(tmp_path)
    disk.works.clear()
    training.step(wants_checkpoint=True)
    training.step()
    training.step()
    disk.works.set()
    training.records.wait()
    assert training.written() == [(1, 1.0)]


def test_what_is_asked_for_while_one_is_being_written_is_written_afterwards_once(
    tmp_path: Path, disk: Disk
) -> None:
    training = Trained(tmp_path)
    disk.works.clear()
    for _ in range(3):
        training.step(wants_checkpoint=True)
    disk.works.set()
    training.step_until(lambda: not training.records._is_writing)
    training.step()
    training.records.wait()
    (first, _), (second, value) = training.written()
    assert first == 1
    assert second == value > 3


def test_one_that_cannot_be_written_is_told_and_the_training_goes_on(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    training = Trained(tmp_path)
    disk.fails_with = CheckpointError("cannot write the checkpoint x: Disk quota exceeded.")
    training.step(wants_checkpoint=True)
    training.step_until(lambda: "Disk quota exceeded. The training goes on" in caplog.text)
    disk.fails_with = None
    training.step(wants_checkpoint=True)
    training.records.wait()
    assert training.written() == [(training.state.step, training.state.step)]


def test_a_defect_in_what_is_to_be_written_is_an_error_of_the_next_step(tmp_path: Path, disk: Disk) -> None:
    training = Trained(tmp_path)
    disk.fails_with = TypeError("cannot pickle this")
    training.step(wants_checkpoint=True)
    with pytest.raises(TypeError, match="cannot pickle this"):
        training.step_until(lambda: False)


def test_the_last_one_follows_the_one_that_is_being_written_and_then_the_training_is_complete(
    tmp_path: Path, disk: Disk
) -> None:
    training = Trained(tmp_path)
    disk.works.clear()
    training.step(wants_checkpoint=True)
    training.step()
    end = threading.Thread(target=training.records.finish)
    end.start()
    assert not training.directory.finished_path.exists()
    disk.works.set()
    end.join()
    assert training.written() == [(1, 1.0), (2, 2.0)]
    assert json.loads(training.directory.finished_path.read_text())["step"] == 2


def test_the_training_waits_where_there_is_no_memory_for_a_copy(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    training = Trained(tmp_path, in_background=False)
    training.step(wants_checkpoint=True)
    assert training.written() == [(1, 1.0)]
    disk.fails_with = CheckpointError("cannot write the checkpoint x: Disk quota exceeded.")
    training.step(wants_checkpoint=True)
    assert "Disk quota exceeded. The training goes on" in caplog.text
