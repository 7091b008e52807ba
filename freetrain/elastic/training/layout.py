"""What a script may change on its way besides values: which parameters it trains, in which groups; shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from freetrain.errors import InputError


def layout_of(module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Names of the parameters that want a gradient, and of each optimizer's parameters, group by group."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    return {
        "trained": [name for parameter, name in names.items() if parameter.requires_grad],
        "groups": [
            [[names.get(parameter, "") for parameter in group["params"]] for group in optimizer.param_groups]
            for optimizer in optimizers
        ],
    }


def take_layout(
    module: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], layout: dict[str, Any]
) -> None:
    """Train the same parameters in the same groups.

    Raises:
        InputError: the groups have parameters that this model does not have.
    """
    parameters = dict(module.named_parameters())
    trained = set(layout["trained"])
    for name, parameter in parameters.items():
        if parameter.is_floating_point():
            parameter.requires_grad_(name in trained)
    if layout["groups"] == layout_of(module, optimizers)["groups"]:
        return
    for optimizer, groups in zip(optimizers, layout["groups"], strict=True):
        _take_groups(optimizer, groups, parameters)


def _take_groups(
    optimizer: torch.optim.Optimizer, groups: Sequence[Sequence[str]], parameters: dict[str, torch.nn.Parameter]
) -> None:
    unknown = [name for group in groups for name in group if name not in parameters]
    if unknown:
        raise InputError(
            "the optimizers of the others have groups of parameters that this worker's script has not made, and "
            "not all of them are the model's own.",
            "Make all parameters before the training begins, and put those that come later into the model.",
        )
    known = list(optimizer.param_groups)
    optimizer.param_groups.clear()
    for place, names in enumerate(groups):
        options = {name: value for name, value in known[min(place, len(known) - 1)].items() if name != "params"}
        optimizer.add_param_group({**options, "params": [parameters[name] for name in names]})


def take_shapes_of_buffers(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Make room for buffers that have another shape by now."""
    for name, buffer in list(module.named_buffers()):
        theirs = tensors.get(name)
        if isinstance(theirs, torch.Tensor) and theirs.shape != buffer.shape:
            owner, _, own_name = name.rpartition(".")
            setattr(module.get_submodule(owner), own_name, torch.empty_like(theirs, device=buffer.device))
