"""Lightning: a callback that saves when the training's size is to change."""

from __future__ import annotations

import os
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:  # the same under its older name
    from pytorch_lightning import Callback

from freetrain.elastic.script.hooks import StopSignal


class LightningSaver(Callback):
    """A callback that, at SIGTERM, saves a checkpoint at the end of the step and ends the training.

    Args:
        path: of the checkpoint, which the script gives to ``trainer.fit`` as ``ckpt_path`` where it exists.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._signal: StopSignal | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Listen, in place of Lightning: its own handler makes ranks exchange something wherever they are."""
        self._signal = StopSignal()

    def on_train_batch_end(self, trainer: Any, *_: object) -> None:
        """Save if any rank got the signal."""
        if self._signal is not None and self._signal.is_due:
            trainer.save_checkpoint(self._path)
            trainer.should_stop = True
