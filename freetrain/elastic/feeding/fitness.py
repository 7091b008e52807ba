"""Which trainings can be fed to a newcomer, which are worth it, and how a newcomer gets ready."""

from __future__ import annotations

import logging
import math
import os

import torch
from torch import optim

from freetrain.elastic.training.state import TrainingState, hyperparameters, parameters_in, set_hyperparameters
from freetrain.elastic.training.tensors import is_sharded
from freetrain.elastic.worlds.exchange import bytes_of
from freetrain.elastic.worlds.replica import lost_replica
from freetrain.errors import InputError

log = logging.getLogger(__name__)

FROM_VARIABLE = "FREETRAIN_FEED_FROM_MB"
# Megabytes of parameters. Of a smaller model a broadcast costs less than a tenth of a second.
_FROM_MB = 16.0
# Optimizers that make each parameter's update of that parameter's gradient alone.
_OPTIMIZERS = (
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.NAdam,
    optim.RAdam,
    optim.Adamax,
    optim.Adadelta,
    optim.Adagrad,
    optim.RMSprop,
    optim.Rprop,
    optim.ASGD,
)


def wants_to_be_fed(state: TrainingState) -> bool:
    """Whether a broadcast of the state would be felt, by its size, and feeding can replace it."""
    if sum(map(bytes_of, state.module.parameters())) < 1e6 * _from_mb():
        return False
    reason = why_not_fed(state)
    if reason is not None:
        log.warning("%s: newcomers get the state of this training by broadcast, while all wait", reason)
    return reason is None


def why_not_fed(state: TrainingState) -> str | None:
    """Why a newcomer could not follow the others' updates exactly; None: it can."""
    for optimizer in state.optimizers:
        # Not isinstance(): a subclass may do anything in its step.
        if type(optimizer) not in _OPTIMIZERS:
            return f"{type(optimizer).__name__} is not known to update each parameter by its own gradient alone"
        hooks = [*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values()]
        # Our own one, which adds gradients up, does nothing at a newcomer.
        if not all(getattr(hook, "__module__", "").startswith("freetrain.elastic.") for hook in hooks):
            return "the optimizer has hooks"
    updated = [id(parameter) for parameter in parameters_in(*state.optimizers)]
    if len(updated) != len(set(updated)):
        return "some parameters have two optimizers"
    if any(parameter.layout is not torch.strided for parameter in state.module.parameters()):
        return "some parameters are sparse"
    return None


def _from_mb() -> float:
    text = os.environ.get(FROM_VARIABLE, "")
    try:
        value = float(text or _FROM_MB)
    except ValueError:
        value = math.nan
    # Not 'value < 0', which does not hold for NaN.
    if not value >= 0:
        raise InputError(f"{FROM_VARIABLE}={text} in the environment is not a number of megabytes.", "Unset it.")
    return value


def prewarm(state: TrainingState) -> None:
    """Step each optimizer once with gradients of zero and learning rates of zero, and let it forget that.

    What torch prepares for an optimizer's first step it prepares now: code that it imports, and for sharded
    tensors how each of its operations is to be spread, also those of clipping.

    All workers of a replica have to call it at the same time; raises Departed if another one was lost.
    """
    if why_not_fed(state) is not None:
        return
    for optimizer in state.optimizers:
        # Some optimizers know something before their first step, which it would change.
        if not any(optimizer.state.values()):
            _step_with_zeros(optimizer)


def _step_with_zeros(optimizer: torch.optim.Optimizer) -> None:
    parameters = [parameter for parameter in parameters_in(optimizer) if parameter.requires_grad]
    if any(parameter.grad is not None for parameter in parameters):
        return
    before = hyperparameters(optimizer)
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for group in optimizer.param_groups:
            # In its own type: with capturable=True it may be a tensor.
            group["lr"] = group["lr"] * 0
        _clip([parameter for parameter in parameters if is_sharded(parameter)])
        optimizer.step()
    finally:
        for parameter in parameters:
            parameter.grad = None
        optimizer.state.clear()
        set_hyperparameters(before, optimizer)


def _clip(sharded: list[torch.Tensor]) -> None:
    """Clip as scripts do; the norm is a sum over the workers of the replica."""
    try:
        if sharded:
            torch.nn.utils.clip_grad_norm_(sharded, 1.0)
    except RuntimeError as error:
        raise lost_replica() from error
