"""Optimizers that are stepped with a closure, which computes gradients: it is called before these are summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from freetrain.errors import InputError

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Of ``optimizer.step()``, as torch gives them to hooks: the optimizer comes first."""


def call_first(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments | None:
    """Call the closure, if there is one; the arguments by which the optimizer then hears of its loss alone.

    Raises:
        InputError: this optimizer may do something else before it calls its closure, or call it again.
    """
    closure: Callable[[], Any] | None = args[1] if len(args) > 1 else kwargs.get("closure")
    if closure is None:
        return None
    if not _calls_it_once_and_first(optimizer):
        raise InputError(
            f"{type(optimizer).__name__}.step() was called with a closure, whose gradients cannot be added up "
            "over the ranks: this optimizer may call it several times, or not at once.",
            "Compute loss and gradients before it and call it without a closure, or take another optimizer.",
        )
    with torch.enable_grad():
        loss = closure()
    rest = {name: value for name, value in kwargs.items() if name != "closure"}
    return (args[0],), {**rest, "closure": lambda: loss}


def _calls_it_once_and_first(optimizer: torch.optim.Optimizer) -> bool:
    """Torch's own optimizers do, but for LBFGS."""
    by_torch = type(optimizer).step.__module__.startswith("torch.optim.")
    return by_torch and not isinstance(optimizer, torch.optim.LBFGS)
