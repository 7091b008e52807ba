"""The last step of an epoch, which may have fewer samples than the model needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from freetrain.elastic import FixedBatch, Run
from tests.elastic.harness import workers


def test_a_last_step_that_is_too_small_says_what_to_do(tmp_path: Path) -> None:
    with workers(tmp_path, "normalising.py") as trainer:
        trainer.start()
        assert trainer.finish() == {"w0": 1}
        assert "ValueError: Expected more than 1 value per channel" in trainer.error_of("w0")
        assert "step 3, the last of its epoch, has only 1 samples" in trainer.error_of("w0")
        assert "drop_last=True" in trainer.error_of("w0")


def test_a_last_step_that_is_too_small_can_be_left_out(tmp_path: Path) -> None:
    with workers(tmp_path, "normalising.py", DROP_LAST="1") as trainer:
        trainer.start()
        assert trainer.finish() == {"w0": 0}, trainer.errors()


def test_leaving_out_all_there_is_would_be_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with (
        pytest.raises(SystemExit),
        Run(model, optimizer, 9, FixedBatch(10), drop_last=True, trainer=tmp_path) as run,
    ):
        list(run.steps())
    assert "a step takes 10 samples, and an epoch has only 9" in capsys.readouterr().err
