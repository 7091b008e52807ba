"""What Hugging Face's accelerate has wrapped: what is inside is what steps, or is read."""

from __future__ import annotations

from typing import Any

import torch


def optimizer_in(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer that makes the updates: the one inside, where accelerate has prepared it."""
    inner: torch.optim.Optimizer = optimizer.optimizer if _is_prepared(optimizer) else optimizer  # type: ignore[attr-defined]
    return inner


def loader_in(data: Any) -> Any:
    """The loader that was given to accelerate, and any other data as it is."""
    return getattr(data, "base_dataloader", data) if _is_prepared(data) else data


def _is_prepared(wrapped: object) -> bool:
    return type(wrapped).__module__.startswith("accelerate.")
