"""Lightning's Trainer with a tiny model: as for torchrun, with freetrain's callback."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from freetrain.elastic.frameworks.lightning import LightningSaver

OUT = Path(os.environ["OUT"])
LAST = OUT / "last.ckpt"
BATCH = 8


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 1)

    def training_step(self, batch, _number):
        samples, targets = batch
        loss = (self.layer(samples) - targets).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.001, momentum=0.9)


class Log(Callback):
    def on_train_batch_end(self, trainer, *_):
        time.sleep(float(os.environ.get("STEP_S", "0")))
        if trainer.is_global_zero:
            with (OUT / "steps").open("a") as log:
                log.write(f"{trainer.global_step} {trainer.world_size} {trainer.callback_metrics['loss']}\n")
        if (OUT / "enough").exists():
            trainer.should_stop = True


torch.set_num_threads(1)
torch.manual_seed(1)
# An epoch is one batch: Lightning begins an epoch with its first batch again, wherever it was in it.
dataset = TensorDataset(torch.randn(BATCH, 6), torch.randn(BATCH, 1))
trainer = Trainer(
    devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    strategy="ddp", max_epochs=-1, max_steps=int(os.environ.get("STEPS", "-1")), logger=False,
    callbacks=[Log(), ModelCheckpoint(OUT, "last", every_n_train_steps=5), LightningSaver(LAST)],
    log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
loader = DataLoader(dataset, BATCH // int(os.environ["WORLD_SIZE"]))
trainer.fit(Model(), loader, ckpt_path=LAST if LAST.exists() else None)
