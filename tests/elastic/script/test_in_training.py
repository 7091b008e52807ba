"""What a script may ask before its first step, and what it is told where it does something else than it thinks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from freetrain import elastic
from freetrain.errors import InputError
from tests.elastic.harness import ended_script

WRONG_ARGUMENTS = """
import torch
from freetrain import elastic

model = torch.nn.Linear(1, 1)
elastic.Loop(model, torch.optim.SGD(model.parameters(), 0.1), [1, 2])
"""
NUMBERS = TensorDataset(torch.arange(20.0).reshape(20, 1))


@pytest.fixture
def loop(tmp_path: Path) -> Any:
    """Five batches in each of two epochs, for one rank."""
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return elastic.Loop(model, optimizer, DataLoader(NUMBERS, 4), epochs=2, trainer=tmp_path / "trainer")


def step_with(run: Any, batch: Any) -> None:
    run.model(batch[0] / 20).square().mean().backward()
    run.state.optimizers[0].step()
    run.state.optimizers[0].zero_grad()


def train(run: Any) -> list[int]:
    epochs = []
    for epoch in run.epochs():
        epochs.append(epoch)
        for batch in run.batches:
            step_with(run, batch)
    return epochs


def test_rank_size_length_device_and_means_are_there_before_the_first_epoch(
    loop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with loop as run:
        assert len(run.batches) == 5
        assert (run.rank, run.world_size, run.is_main, run.step) == (0, 1, True, 0)
        assert run.device == torch.device("cpu")
        assert run.mean(3.0) == 3.0
        assert run.first_time()
        run.print("by rank 0")
        assert train(run) == [0, 1]
    assert "by rank 0" in capsys.readouterr().out


def test_a_schedule_that_needs_the_length_is_carried_along(loop: Any) -> None:
    with loop as run:
        (optimizer,) = run.state.optimizers
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=2, steps_per_epoch=len(run.batches))
        run.carry(schedule=schedule)
        train(run)
        with pytest.raises(InputError, match="after the training had begun"):
            run.carry(other=schedule)
    assert "schedule" in run.state.also


def test_lines_of_the_log_begin_with_the_rank(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), loop as run:
        run.log.info("before")
        train(run)
        run.log.info("after")
    assert "[no rank yet] before" in caplog.text
    assert "[rank 0 of 1] after" in caplog.text


def test_the_top_of_an_epoch_is_run_for_the_first_time_until_its_first_batch(loop: Any) -> None:
    seen = []
    with loop as run:
        for _ in run.epochs():
            seen.append(run.first_time())
            for batch in run.batches:
                step_with(run, batch)
                seen.append(run.first_time())
    assert seen == [True, *[False] * 5] * 2


def test_a_break_out_of_the_batches_is_told(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    with loop as run:
        for _ in run.epochs():
            for batch in run.batches:
                step_with(run, batch)
                break
    assert "the script left the loop over run.batches after 1 batches of epoch 0" in caplog.text


def test_a_zip_of_the_batches_with_something_else_is_told(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    with loop as run:
        for _ in run.epochs():
            for batch, _other in zip(run.batches, DataLoader(NUMBERS, 4), strict=True):
                step_with(run, batch)
    assert "zips run.batches with something else" in caplog.text


def test_the_package_shows_its_names() -> None:
    assert {"Loop", "Run", "FixedBatch", "device"} <= set(dir(elastic))


def test_wrong_arguments_end_with_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WRONG_ARGUMENTS)
    ended = ended_script(script, in_folder=tmp_path)
    assert ended.returncode == 1
    assert "freetrain: nothing says how many samples a batch has." in ended.stderr
    assert "Traceback" not in ended.stderr
