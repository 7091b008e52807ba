"""What both scripts train: the same model, the same step."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

import torch

PARAMETERS_VARIABLE = "BENCH_PARAMETERS"
DEVICE_S_VARIABLE = "BENCH_DEVICE_S"
OPTIMIZER_VARIABLE = "BENCH_OPTIMIZER"

SAMPLES, BATCH = 65_536, 64
LARGEST_SIDE = 2048


class Matrices(torch.nn.Module):
    """Square matrices, as transformers have them; every parameter is read and gets its gradient in every step."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        side = min(LARGEST_SIDE, math.isqrt(parameters))
        count = round(parameters / side**2)
        self.matrices = torch.nn.ParameterList(torch.full((side, side), 1.0 / side) for _ in range(count))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """One number per sample."""
        means = torch.stack([matrix.mean() for matrix in self.matrices])
        return means.mean() * ids.float()


def make_model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """The model, and plain SGD, which has no state of its own, or Adam, whose state is twice the model."""
    torch.set_num_threads(1)
    model = Matrices(int(os.environ[PARAMETERS_VARIABLE]))
    kinds: dict[str, type[torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    return model, kinds[os.environ[OPTIMIZER_VARIABLE]](model.parameters(), lr=1e-9)  # type: ignore[call-arg]


def loss_of(model: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """The loss of some samples; sleeping stands for the work of an accelerator, which leaves the CPU alone."""
    time.sleep(float(os.environ[DEVICE_S_VARIABLE]))
    return model(ids).mean()
