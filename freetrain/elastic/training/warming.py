"""A newcomer makes its first update before others wait for it."""

from __future__ import annotations

import torch

from freetrain.elastic.feeding.fitness import why_not_fed
from freetrain.elastic.training.shards import is_sharded
from freetrain.elastic.training.state import TrainingState, hyperparameters, set_hyperparameters
from freetrain.elastic.worlds.replica import lost_replica


def warm_up(state: TrainingState) -> None:
    """Step each optimizer once with gradients of zero and learning rates of zero, and let it forget that.

    Parameters stay as they are. What torch prepares for an optimizer's first step it prepares now: code that it
    imports, and for sharded tensors how each of its operations is to be spread, also those of clipping.

    All workers of a replica have to call it at the same time.

    Raises:
        Departed: another worker of the replica was lost.
    """
    if why_not_fed(state) is not None:
        return
    for optimizer in state.optimizers:
        # Some optimizers know something before their first step, which it would change.
        if not any(optimizer.state.values()):
            _step_in_vain(optimizer)


def _step_in_vain(optimizer: torch.optim.Optimizer) -> None:
    parameters = [each for group in optimizer.param_groups for each in group["params"] if each.requires_grad]
    if any(each.grad is not None for each in parameters):
        return
    before = hyperparameters(optimizer)
    try:
        for each in parameters:
            each.grad = torch.zeros_like(each)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * 0
        _clip([each for each in parameters if is_sharded(each)])
        optimizer.step()
    finally:
        for each in parameters:
            each.grad = None
        optimizer.state.clear()
        set_hyperparameters(optimizer, before)


def _clip(sharded: list[torch.Tensor]) -> None:
    """As scripts do that clip; the norm is a sum over the workers of the replica."""
    try:
        if sharded:
            torch.nn.utils.clip_grad_norm_(sharded, 1.0)
    except RuntimeError as error:
        raise lost_replica() from error
