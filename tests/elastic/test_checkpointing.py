"""Only who ends waits for a checkpoint; a worker that is killed while it writes leaves the one before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from freetrain import elastic
from tests.elastic.harness import Workers, assert_exactly_once, workers
from tests.elastic.training.test_records import Disk

EPOCHS = 30


def newest(trainer: Workers) -> int:
    """The step of the newest checkpoint."""
    return max((int(path.stem[5:]) for path in trainer.directory.checkpoints.glob("step-*.pt")), default=0)


def drafts(trainer: Workers) -> list[int]:
    """The steps of those that are being written."""
    return [int(path.name[6:16]) for path in trainer.directory.checkpoints.glob(".step-*")]


def get_stuck(trainer: Workers) -> int:
    """The step of the checkpoint that is being written from now on."""
    (trainer.out / "held").unlink(missing_ok=True)
    (trainer.out / "stuck").touch()
    trainer.wait_until((trainer.out / "held").exists, "checkpoint that is being written")
    return max(drafts(trainer))


def get_unstuck(trainer: Workers) -> None:
    (trainer.out / "stuck").unlink()


def test_training_goes_on_while_a_checkpoint_is_written_and_a_kill_meanwhile_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    environment = {"EPOCHS": str(EPOCHS), "CHECKPOINT_EVERY_S": "0.2", "STEP_ALONE_S": "0.2"}
    with workers(tmp_path, "stuck_disk.py", **environment) as trainer:
        trainer.pace(slow=True)
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.wait_until(lambda: newest(trainer) > 0, "checkpoint")

        writer, other = trainer.ranks()

        under_way = get_stuck(trainer)
        trainer.await_world(2)
        trainer.leave(writer)
        trainer.await_world(1)
        assert trainer.processes[writer].poll() is None
        assert trainer.directory.is_gone(writer) is None
        get_unstuck(trainer)
        assert trainer.finish(writer) == {writer: 0}, trainer.errors()
        assert newest(trainer) >= under_way

        under_way = get_stuck(trainer)
        trainer.kill(other)
        good = newest(trainer)
        assert 0 < good < under_way
        get_unstuck(trainer)
        trainer.start()
        trainer.pace(slow=False)
        assert trainer.finish() == {writer: 0, other: -9, "w2": 0}, trainer.errors()
        assert min(record["step"] for record in trainer.records("w2")) == good + 1
        assert_exactly_once(trainer, EPOCHS)


@pytest.mark.parametrize("kind", [elastic.Run, elastic.Loop])
def test_steps_are_made_while_the_disk_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[elastic.Run] | type[elastic.Loop]
) -> None:
    disk = Disk(monkeypatch)
    disk.works.clear()
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    weights: dict[int, torch.Tensor] = {}

    def look_after(run: elastic.Run | elastic.Loop) -> None:
        weights[run.step] = model.weight.detach().clone()
        if run.step == 1:
            run.checkpoint()
        if run.step == 4:
            disk.works.set()

    if kind is elastic.Run:
        with elastic.Run(model, optimizer, 6, elastic.FixedBatch(1), trainer=tmp_path) as run:
            for step in run.steps():
                look_after(run)
                for ids in step:
                    step.backward(run.model(ids[:, None].float()).square().mean())
    else:
        with elastic.Loop(model, optimizer, 6, elastic.FixedBatch(1), trainer=tmp_path) as loop:
            for _ in loop.epochs():
                for ids in loop.batches:
                    look_after(loop)
                    optimizer.zero_grad()
                    model(ids[:, None].float()).square().mean().backward()
                    optimizer.step()
    saved = {int(path.stem[5:]): torch.load(path) for path in (tmp_path / "checkpoints").glob("step-*.pt")}
    assert set(saved) == {2, 6}
    assert torch.equal(saved[2]["model"]["weight"], weights[2])
