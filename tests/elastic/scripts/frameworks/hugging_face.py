"""Hugging Face's Trainer with a tiny model: as for torchrun, with freetrain's callback."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from freetrain.elastic.frameworks.transformers import TrainerSaver

OUT = Path(os.environ["OUT"])
BATCH = 8


class Log(TrainerCallback):
    def on_log(self, args, state, control, logs, **_):
        if "loss" in logs and state.is_world_process_zero:
            with (OUT / "steps").open("a") as log:
                log.write(f"{state.global_step} {args.world_size} {logs['loss']}\n")

    def on_step_end(self, args, state, control, **_):
        time.sleep(float(os.environ.get("STEP_S", "0")))
        if (OUT / "enough").exists():
            control.should_training_stop = True


def newest_whole() -> str | None:
    """The newest checkpoint that was written to its end: a kill may leave half of one."""
    found = [path.parent for path in OUT.glob("checkpoint-*/trainer_state.json")]
    return max(map(str, found), key=lambda path: int(path.rpartition("-")[2]), default=None)


torch.set_num_threads(1)
torch.manual_seed(1)
sentences = torch.randint(0, 50, (64, 6), generator=torch.Generator().manual_seed(2))
config = GPT2Config(
    vocab_size=50, n_positions=6, n_embd=16, n_layer=1, n_head=2,
    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0,
)  # fmt: skip
arguments = TrainingArguments(
    str(OUT), per_device_train_batch_size=BATCH // int(os.environ["WORLD_SIZE"]), learning_rate=0.01,
    max_steps=int(os.environ.get("STEPS", "100000")), lr_scheduler_type="constant",
    use_cpu=not torch.cuda.is_available(),
    logging_steps=1, save_steps=5, save_total_limit=2, report_to=[], disable_tqdm=True,
)  # fmt: skip
dataset = [{"input_ids": sentence, "labels": sentence} for sentence in sentences]
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=dataset, callbacks=[Log(), TrainerSaver()])
trainer.train(resume_from_checkpoint=newest_whole())
