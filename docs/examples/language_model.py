"""A small transformer that learns made-up sentences, with a learning rate schedule and gradient clipping.

    python docs/examples/language_model.py                                          alone
    freetrain run --trainer t2 --nproc 2 -- python docs/examples/language_model.py  two workers

Here larger worlds take larger steps (``ScaledBatch``), and the learning rate grows with their square root.
"""

from __future__ import annotations

import random

import torch
from torch import nn

from freetrain import elastic

NOUNS = ["the node", "a job", "the queue", "our trainer", "that hole"]
VERBS = ["waits for", "wakes", "sees", "follows", "never meets"]
TEXT = sorted(set("".join(NOUNS + VERBS) + " ."))
LENGTH, WIDTH = 48, 64


class Sentences(torch.utils.data.Dataset):
    """Pieces of an endless text of simple sentences; piece ``i`` is always the same."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        return self.pieces

    def __getitem__(self, i: int) -> torch.Tensor:
        dice = random.Random(i)
        text = ""
        while len(text) < LENGTH + 20:
            text += f"{dice.choice(NOUNS)} {dice.choice(VERBS)} {dice.choice(NOUNS)}. "
        start = dice.randrange(20)
        return torch.tensor([TEXT.index(letter) for letter in text[start : start + LENGTH]])


class LanguageModel(nn.Module):
    """Guesses each letter from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(TEXT), WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, len(TEXT))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        length = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=text.device)
        return self.out(self.layers(self.letters(text) + self.places[:length], mask, is_causal=True))


def main() -> None:
    torch.manual_seed(0)
    device = elastic.device()
    model = LanguageModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    faster = 1.0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: faster * min(1.0, (step + 1) / 20))

    def follow(resize: elastic.Resize) -> None:
        nonlocal faster
        faster = (resize.new_batch / 16) ** 0.5

    def after_step(result: elastic.StepResult) -> None:
        schedule.step()
        if result.step % 25 == 0 and result.rank == 0:
            print(f"step {result.step:4d}  loss {result.loss:.3f}  on {result.world} workers", flush=True)

    def clip(module: nn.Module) -> None:
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)

    with elastic.Run(
        model, optimizer, Sentences(8000), elastic.ScaledBatch(16), epochs=4,
        also={"schedule": schedule}, on_resize=follow, before_update=clip, on_step=after_step,
    ) as run:  # fmt: skip
        loss = torch.tensor(0.0)
        for step in run.steps():
            for text in step:
                guesses = run.model(text[:, :-1].to(device))
                loss = nn.functional.cross_entropy(guesses.flatten(0, 1), text[:, 1:].flatten().to(device))
                step.backward(loss)
        if run.rank == 0:
            print(f"loss {loss.item():.3f} after {run.step} steps")


if __name__ == "__main__":
    main()
