from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from freetrain.elastic.errors import CheckpointError, DirectoryError
from freetrain.elastic.membership.identity import this_member
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.training.checkpoints import Checkpoints
from freetrain.errors import InputError
from tests.elastic.harness import Workers, workers


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryError, match="is a file, not a directory"):
        TrainerDirectory.open(tmp_path / "file")


def test_a_directory_that_cannot_be_made() -> None:
    with pytest.raises(DirectoryError, match="cannot create the directory"):
        TrainerDirectory.open(Path("/proc/no/such"))


def test_an_unwritable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TrainerDirectory.open(tmp_path)

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(DirectoryError, match=r"cannot write to the trainer's directory .*: Permission denied"):
        TrainerDirectory.open(tmp_path)


def test_no_trainer_there(tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="is not the directory of a trainer"):
        TrainerDirectory.existing(tmp_path)


def test_a_secret_that_others_can_write(tmp_path: Path) -> None:
    TrainerDirectory.open(tmp_path)
    (tmp_path / "secret").chmod(0o666)
    with pytest.raises(DirectoryError, match=r"can be written by others \(mode 0666\)"):
        TrainerDirectory.open(tmp_path)


def test_a_worker_says_it_in_one_sentence_without_traceback(tmp_path: Path) -> None:
    with workers(tmp_path) as trainer:
        trainer.root.touch()
        trainer.start()
        assert trainer.finish() == {"w0": 74}
        assert trainer.error_of("w0").startswith("freetrain: ")
        assert "is a file, not a directory" in trainer.error_of("w0")
        assert "Traceback" not in trainer.error_of("w0")


@pytest.fixture
def training(tmp_path: Path):
    with workers(tmp_path, EPOCHS="1000") as trainer:
        trainer.pace(slow=True)
        trainer.start()
        trainer.await_world(1)
        yield trainer


def test_two_trainers_in_one_directory(training: Workers) -> None:
    training.script = "other_training.py"
    training.start()
    assert training.finish("w1") == {"w1": 1}
    assert "another training runs there" in training.error_of("w1")
    assert "Traceback" not in training.error_of("w1")
    training.await_world(1)


def test_another_secret(training: Workers) -> None:
    training.start(FREETRAIN_SECRET="guess")
    assert training.finish("w1") == {"w1": 1}
    assert "does not know the trainer's secret" in training.error_of("w1")
    assert "Traceback" not in training.error_of("w1")
    training.await_world(1)


def test_another_torch(training: Workers) -> None:
    mark = next(iter(training.directory.view().members.values())).fingerprint
    stranger = dataclasses.replace(this_member(mark, "1.0"), id="stranger")
    training.directory.join(stranger)
    training.wait_until(lambda: "stranger" in training.directory.view().refused, "refusal")
    assert "it runs torch 1.0, the others 2" in training.directory.view().refused["stranger"]
    training.await_world(1)


def test_checkpoints_keep_the_last(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in range(5):
        checkpoints.save({"step": step}, step)
    assert [path.name for path in checkpoints.newest_first()] == [f"step-{step:010d}.pt" for step in (4, 3, 2)]
    assert checkpoints.load_newest() == {"step": 4}


def test_what_a_worker_left_that_was_killed_while_it_wrote_is_removed_later(tmp_path: Path) -> None:
    for step in (1, 9):
        (tmp_path / f".step-{step:010d}.pt.123").touch()
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save({"step": 2}, 2)
    assert checkpoints.load_newest() == {"step": 2}
    assert [path.name for path in tmp_path.glob(".step-*")] == [".step-0000000009.pt.123"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_corrupt_checkpoint_falls_back(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1, "x": torch.zeros(1000)}, 1)
    path = checkpoints.save({"step": 2, "x": torch.ones(1000)}, 2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged = {"flipped": bytes(content), "truncated": bytes(content[:-100]), "empty": b"", "foreign": b"hello"}
    path.write_bytes(damaged[damage])
    loaded = checkpoints.load_newest()
    assert loaded is not None
    assert loaded["step"] == 1
    assert "falling back to the one before" in caplog.text


def test_only_corrupt_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "step-0000000001.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        Checkpoints(tmp_path).load_newest()


def test_a_checkpoint_that_others_can_write_is_not_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1}, 1)
    checkpoints.save({"step": 2}, 2).chmod(0o666)
    assert checkpoints.load_newest() == {"step": 1}
    assert "can be written by others" in caplog.text


def test_a_checkpoint_with_code_in_it_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "step-0000000001.pt"
    torch.save({"step": print}, path)
    path.chmod(0o600)
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        Checkpoints(tmp_path).load_newest()


def test_a_service_that_is_no_address_is_named_at_once(tmp_path: Path) -> None:
    with workers(tmp_path, FREETRAIN_SERVICE="nonsense") as trainer:
        trainer.start(1)
        assert trainer.finish() == {"w0": 1}
        assert "FREETRAIN_SERVICE=nonsense is no address" in trainer.error_of("w0")


@pytest.mark.parametrize(("name", "text"), [("LOST_AFTER_S", "abc"), ("MIN_MEMBERS", "1.5"), ("BEAT_S", "nan")])
def test_a_limit_that_is_no_number_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"FREETRAIN_{name}", text)
    with pytest.raises(InputError, match=f"FREETRAIN_{name}={text} in the environment is not a"):
        Timeouts.from_environment()
