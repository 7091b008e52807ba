"""Hugging Face's Trainer: a callback that saves when the training's size is to change."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from freetrain.elastic.script.hooks import StopSignal


class TrainerSaver(TrainerCallback):
    """A callback that, at SIGTERM, saves a checkpoint at the end of the step and ends the training.

    The script resumes with ``trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))``.
    """

    def __init__(self) -> None:
        self._signal: StopSignal | None = None

    def on_train_begin(self, *_: object, **__: object) -> None:
        """Listen."""
        self._signal = StopSignal()

    def on_step_end(self, args: object, state: object, control: Any, **_: object) -> None:
        """Save if any rank got the signal."""
        if self._signal is not None and self._signal.is_due:
            control.should_save = control.should_training_stop = True
