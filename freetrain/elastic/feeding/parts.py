"""A training's state in parts: each parameter with what the optimizer knows of it, and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from freetrain.elastic.feeding.errors import FeedError
from freetrain.elastic.feeding.packets import Packet, Slot, room_for
from freetrain.elastic.training.state import TrainingState, set_hyperparameters

_PLAIN = (int, float, bool, str, type(None))


class Parts:
    """The parameters in an order that is the same on all ranks.

    Args:
        state: of the training.
    """

    def __init__(self, state: TrainingState) -> None:
        self._optimizer = state.optimizer
        optimized = (each for group in self._optimizer.param_groups for each in group["params"])
        self.parameters: list[torch.Tensor] = list(dict.fromkeys([*optimized, *state.module.parameters()]))

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def gradient_bytes(self) -> int:
        """Room for a gradient of each."""
        return sum(map(room_for, self.parameters))

    def size_bytes(self, index: int) -> int:
        """Room for one part as it is now."""
        known = self._known(index).values()
        tensors = [value for value in known if isinstance(value, torch.Tensor)]
        return sum(map(room_for, [self.parameters[index], *tensors]))

    # -- at the source

    def versions(self) -> list[tuple[int, int]]:
        """What is another one after any change that torch counts, of parameters or of the optimizer's tensors."""
        known = (value for index in range(len(self)) for value in self._known(index).values())
        tensors = [*self.parameters, *(value for value in known if isinstance(value, torch.Tensor))]
        return [(id(each), each._version) for each in tensors]

    def put_gradients(self, count: int, packet: Packet) -> dict[int, Slot]:
        """The gradients of the first parts, of those that have one."""
        slots = {}
        for index, parameter in enumerate(self.parameters[:count]):
            if parameter.grad is not None:
                if parameter.grad.layout is not torch.strided:
                    raise FeedError("some gradients are sparse")
                slots[index] = packet.put(parameter.grad)
        return slots

    def put(self, index: int, packet: Packet) -> dict[str, Any]:
        """One part."""
        slots: dict[str, Slot] = {}
        plain: dict[str, Any] = {}
        for name, value in self._known(index).items():
            if isinstance(value, torch.Tensor):
                slots[name] = packet.put(value)
            elif isinstance(value, _PLAIN):
                plain[name] = value
            else:
                raise FeedError(f"the optimizer keeps a {type(value).__name__} for each parameter")
        return {"index": index, "value": packet.put(self.parameters[index]), "slots": slots, "plain": plain}

    # -- at the newcomer

    def take(self, part: Mapping[str, Any], packet: Packet) -> None:
        """One part as the source has it."""
        parameter = self.parameters[part["index"]]
        value = packet.at(part["value"])
        if value.shape != parameter.shape or value.dtype != parameter.dtype:
            raise FeedError("the source has other parameters, or has them in another order")
        with torch.no_grad():
            parameter.copy_(value)
        known: dict[str, Any] = dict(part["plain"])
        for name, slot in part["slots"].items():
            known[name] = _own(packet, slot, parameter)
        self._optimizer.state.pop(parameter, None)
        if known:
            self._optimizer.state[parameter] = known

    def update(self, groups: list[dict[str, Any]], gradients: Mapping[int, Slot], packet: Packet) -> None:
        """Step the optimizer with the source's gradients: of parts that have arrived, and of no others."""
        if len(groups) != len(self._optimizer.param_groups):
            raise FeedError("the source has another number of groups of parameters")
        set_hyperparameters(self._optimizer, groups)
        if not gradients:
            return
        for index, parameter in enumerate(self.parameters):
            slot = gradients.get(index)
            parameter.grad = None if slot is None else _gradient(packet.at(slot), parameter)
        try:
            self._optimizer.step()
        finally:
            for parameter in self.parameters:
                parameter.grad = None

    def _known(self, index: int) -> Mapping[str, Any]:
        """What the optimizer knows of one parameter; asking must not make it remember something."""
        known: Mapping[str, Any] = self._optimizer.state.get(self.parameters[index], {})
        return known


def _gradient(sent: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """As it was sent, and in the memory's order of the parameter, as optimizers may rely on it."""
    if parameter.device.type == "cpu" and parameter.is_contiguous():
        return sent
    return torch.empty_like(parameter).copy_(sent)


def _own(packet: Packet, slot: Slot, parameter: torch.Tensor) -> torch.Tensor:
    """A tensor of the slot's content; what has the parameter's shape also has its order in memory."""
    sent, device = packet.at(slot), "cpu" if slot[3] == "cpu" else parameter.device
    like = parameter.detach() if sent.shape == parameter.shape else sent
    return torch.empty_like(like, dtype=sent.dtype, device=device).copy_(sent)
