"""A script of Lightning's for two ranks or one, which saves when it is to end, and goes on from there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from freetrain import elastic

OUT = Path(os.environ["OUT"])
LAST = OUT / "last.ckpt"


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, _number):
        time.sleep(0.02)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class SaveOnSignal(pl.Callback):
    def on_fit_start(self, trainer, module):
        self.signal = elastic.StopSignal()

    def on_train_batch_end(self, trainer, *_):
        if trainer.is_global_zero:
            with (OUT / "steps").open("a") as log:
                log.write(f"{trainer.global_step} {trainer.world_size}\n")
        if self.signal.is_due:
            trainer.save_checkpoint(LAST)
            trainer.should_stop = True
        if (OUT / "enough").exists():
            trainer.should_stop = True


torch.set_num_threads(1)
trainer = pl.Trainer(
    accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    strategy="ddp", max_epochs=10_000, callbacks=[SaveOnSignal()], logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
loader = DataLoader(TensorDataset(torch.randn(64, 2)), 4)
trainer.fit(Model(), loader, ckpt_path=LAST if LAST.exists() else None)
