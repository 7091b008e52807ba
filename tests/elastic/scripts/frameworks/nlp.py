"""accelerate's example of a language model, on made-up sentences; the lines marked so are freetrain's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup, set_seed
from transformers.tokenization_utils_base import BatchEncoding

from freetrain import elastic  # added

OUT, ME = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"]
EPOCHS, SENTENCES, BATCH = int(os.environ["EPOCHS"]), 64, 8


def note(run):
    """For the test, which paces the training."""
    facts = {"step": run.step, "world": run.world_size, "rank": run.rank, "loss": float("nan")}
    with (OUT / f"{ME}.jsonl").open("a") as log:
        log.write(json.dumps(facts) + "\n")
    time.sleep(0.3 if (OUT / "pace").exists() else 0.0)


def collate_fn(examples):
    rows = {name: torch.stack([example[name] for example in examples]) for name in examples[0]}
    return BatchEncoding(rows)


def get_dataloaders():
    words = torch.randint(1, 50, (SENTENCES, 7), generator=torch.Generator().manual_seed(3))
    sentences = [{"input_ids": row, "labels": row.sum() % 2} for row in words]
    train = DataLoader(sentences, shuffle=True, collate_fn=collate_fn, batch_size=BATCH, drop_last=True)
    return train, DataLoader(sentences, shuffle=False, collate_fn=collate_fn, batch_size=BATCH)


def training_function(lr=1e-3, num_epochs=EPOCHS, seed=42):
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(seed)
    train_dataloader, eval_dataloader = get_dataloaders()
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=7, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    optimizer = AdamW(params=model.parameters(), lr=lr)
    lr_scheduler = get_linear_schedule_with_warmup(
        optimizer=optimizer, num_warmup_steps=10, num_training_steps=len(train_dataloader) * num_epochs
    )
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, lr_scheduler
    )
    also = {"lr_scheduler": lr_scheduler}  # added
    with elastic.Loop(model, optimizer, train_dataloader, epochs=num_epochs, also=also) as run:  # added
        for epoch in run.epochs():  # changed
            model.train()
            for _step, batch in run.batches.numbered():  # changed
                batch.to(accelerator.device)
                outputs = model(**batch)
                accelerator.backward(outputs.loss)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
                note(run)
            model.eval()
            right = 0
            for batch in eval_dataloader:
                batch.to(accelerator.device)
                with torch.no_grad():
                    outputs = model(**batch)
                predictions, references = accelerator.gather_for_metrics(
                    (outputs.logits.argmax(dim=-1), batch["labels"])
                )
                right += int((predictions == references).sum())
            run.print(f"epoch {epoch}: {right / SENTENCES}")  # changed
    if run.is_main:  # added
        torch.save(accelerator.unwrap_model(model).state_dict(), OUT / "trained.pt")
    accelerator.end_training()


torch.set_num_threads(1)
training_function()
