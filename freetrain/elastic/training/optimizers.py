"""Several optimizers as one, as far as a training's state needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Optimizers:
    """Several optimizers as one; their steps are the script's to make.

    Attributes:
        each: the optimizers.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.each = list(optimizers)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all."""
        return [group for each in self.each for group in each.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all."""
        for each in self.each:
            each.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The states of all."""
        return {str(place): each.state_dict() for place, each in enumerate(self.each)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        for place, each in enumerate(self.each):
            each.load_state_dict(state_dict[str(place)])


def each_of(optimizer: torch.optim.Optimizer | Optimizers) -> list[torch.optim.Optimizer]:
    """The optimizers behind one that may stand for several."""
    return optimizer.each if isinstance(optimizer, Optimizers) else [optimizer]
