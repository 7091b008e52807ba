"""A small image classifier that grows and shrinks while it trains.

    python docs/examples/image_classifier.py                                              alone
    freetrain run --trainer t1 --nproc 2 -- python docs/examples/image_classifier.py 200  two workers, 200 epochs
    freetrain poke t1 --grow 1                                                            from another terminal

The images are made up: bars at eight angles, in noise. Eight epochs are enough; more leave time to play.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import nn

from freetrain import elastic

CLASSES, PIXELS = 8, 16


class Bars(torch.utils.data.Dataset):
    """Image ``i`` is always the same, wherever and whenever it is asked for."""

    def __init__(self, images: int, seed: int) -> None:
        self.images, self.seed = images, seed
        line = torch.linspace(-1, 1, PIXELS)
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + i)
        label = int(torch.randint(CLASSES, (), generator=random))
        angle = math.pi * label / CLASSES
        distance = (self.x * math.sin(angle) - self.y * math.cos(angle)).abs()
        noise = 0.7 * torch.randn(PIXELS, PIXELS, generator=random)
        return ((distance < 0.2).float() + noise).unsqueeze(0), label


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Flatten(), nn.Linear(24 * (PIXELS // 4) ** 2, CLASSES),
    )  # fmt: skip


def accuracy_of(model: nn.Module, data: Bars, device: torch.device) -> float:
    model.eval()
    with torch.no_grad():
        images, labels = torch.utils.data.default_collate([data[i] for i in range(len(data))])
        return float((model(images.to(device)).argmax(1).cpu() == labels).float().mean())


def log(result: elastic.StepResult) -> None:
    if result.step % 25 == 0 and result.rank == 0:
        print(f"step {result.step:4d}  loss {result.loss:.3f}  on {result.world} workers", flush=True)


def main() -> None:
    torch.manual_seed(0)
    device = elastic.device()
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = Bars(6400, seed=1)
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    # 64 images per step whatever the number of workers: the loss curve does not depend on it.
    with elastic.Run(model, optimizer, data, elastic.FixedBatch(64), epochs=epochs, on_step=log) as run:
        for step in run.steps():
            for images, labels in step:
                loss = nn.functional.cross_entropy(run.model(images.to(device)), labels.to(device))
                step.backward(loss)
        if run.rank == 0:
            print(f"accuracy {accuracy_of(model, Bars(512, seed=2), device):.3f} after {run.step} steps")


if __name__ == "__main__":
    main()
