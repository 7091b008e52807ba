"""One rank of a small training that goes on until it is ended."""

from __future__ import annotations

import sys
import time

import torch

from freetrain import elastic


def main() -> None:
    """Train on this kind of device."""
    device = torch.device("cpu") if sys.argv[1] == "cpu" else elastic.device()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    batch = elastic.FixedBatch(16)
    with elastic.Run(model, optimizer, 10**6, batch, epochs=1000, progress_every_s=0.5) as run:
        for step in run.steps():
            for ids in step:
                inputs = torch.sin(ids[:, None] * torch.arange(1, 33) / 50.0).to(device)
                step.backward(run.model(inputs).square().mean())
            time.sleep(0.01)


if __name__ == "__main__":
    main()
