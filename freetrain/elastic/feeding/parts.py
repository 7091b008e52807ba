"""A training's state in parts: each parameter with what its optimizer knows of it, and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from freetrain.elastic.feeding.errors import FeedError
from freetrain.elastic.feeding.packets import Packet, Slot, room_for
from freetrain.elastic.training.layout import layout_of
from freetrain.elastic.training.shards import is_sharded, local, with_local
from freetrain.elastic.training.state import TrainingState, set_hyperparameters
from freetrain.elastic.worlds.calls import digest_of

_PLAIN = (int, float, bool, str, type(None))


class Parts:
    """The parameters in an order that is the same on all ranks; of a sharded one, this worker's shard.

    Args:
        state: of the training.
    """

    def __init__(self, state: TrainingState) -> None:
        self._optimizers = state.optimizers
        self._optimizer_of = {
            each: optimizer
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for each in group["params"]
        }
        every = dict.fromkeys([*self._optimizer_of, *state.module.parameters()])
        self.parameters: list[torch.Tensor] = list(every)
        self.layout = digest_of(layout_of(state.module, state.optimizers))

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def gradient_bytes(self) -> int:
        """Room for a gradient of each."""
        return sum(room_for(local(each)) for each in self.parameters)

    def size_bytes(self, index: int) -> int:
        """Room for one part as it is now."""
        return sum(room_for(local(each)) for each in (self.parameters[index], *self._known_tensors(index)))

    # -- at the source

    def versions(self) -> list[tuple[int, int]]:
        """What is another one after any change that torch counts, of parameters or of the optimizers' tensors.

        Of sharded ones the whole: what ``to_local`` gives is a new alias each time, whose changes are not counted.
        """
        known = (each for index in range(len(self)) for each in self._known_tensors(index))
        return [(id(each), each._version) for each in (*self.parameters, *known)]

    def put_gradients(self, place: int, count: int, packet: Packet) -> dict[int, Slot]:
        """The gradients with which this optimizer steps, of those of the first parts that have one."""
        gradients = {
            index: parameter.grad
            for index, parameter in enumerate(self.parameters[:count])
            if parameter.grad is not None and self._optimizer_of.get(parameter) is self._optimizers[place]
        }
        if any(gradient.layout is not torch.strided for gradient in gradients.values()):
            raise FeedError("some gradients are sparse")
        slots = packet.put_all(map(local, gradients.values()))
        return dict(zip(gradients, slots, strict=True))

    def put(self, index: int, packet: Packet) -> dict[str, Any]:
        """One part."""
        slots: dict[str, Slot] = {}
        plain: dict[str, Any] = {}
        for name, value in self._known(index).items():
            if isinstance(value, torch.Tensor):
                slots[name] = packet.put(local(value))
            elif isinstance(value, _PLAIN):
                plain[name] = value
            else:
                raise FeedError(f"the optimizer keeps a {type(value).__name__} for each parameter")
        sharded = [name for name, value in self._known(index).items() if is_sharded(value)]
        value = packet.put(local(self.parameters[index]))
        return {"index": index, "value": value, "slots": slots, "plain": plain, "sharded": sharded}

    # -- at the newcomer

    def take(self, part: Mapping[str, Any], packet: Packet) -> None:
        """One part as the source has it."""
        parameter = self.parameters[part["index"]]
        mine, value = local(parameter), packet.at(part["value"])
        if value.shape != mine.shape or value.dtype != mine.dtype:
            raise FeedError("the source has other parameters, or has them in another order")
        with torch.no_grad():
            mine.copy_(value)
        known: dict[str, Any] = dict(part["plain"])
        for name, slot in part["slots"].items():
            own = _own(packet, slot, mine)
            known[name] = with_local(parameter, own) if name in part["sharded"] and is_sharded(parameter) else own
        if parameter in self._optimizer_of:
            state = self._optimizer_of[parameter].state
            state.pop(parameter, None)
            if known:
                state[parameter] = known

    def update(self, message: Mapping[str, Any], packet: Packet) -> None:
        """Step one optimizer with the source's gradients: of parts that have arrived, and of no others."""
        optimizer, groups = self._optimizers[message["place"]], message["groups"]
        if len(groups) != len(optimizer.param_groups):
            raise FeedError("the source has another number of groups of parameters")
        set_hyperparameters(optimizer, groups)
        for index, slot in message["gradients"].items():
            self.parameters[index].grad = _gradient(packet.at(slot), self.parameters[index])
        try:
            optimizer.step()
        finally:
            for parameter in self.parameters:
                parameter.grad = None

    def _known(self, index: int) -> Mapping[str, Any]:
        """What the optimizer knows of one parameter; asking must not make it remember something."""
        parameter = self.parameters[index]
        optimizer = self._optimizer_of.get(parameter)
        known: Mapping[str, Any] = {} if optimizer is None else optimizer.state.get(parameter, {})
        return known

    def _known_tensors(self, index: int) -> list[torch.Tensor]:
        return [value for value in self._known(index).values() if isinstance(value, torch.Tensor)]


def _gradient(sent: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """As it was sent, and in the memory's order of the parameter, as optimizers may rely on it."""
    mine = local(parameter)
    plain = mine.device.type == "cpu" and mine.is_contiguous()
    gradient = sent if plain else torch.empty_like(mine).copy_(sent)
    return with_local(parameter, gradient) if is_sharded(parameter) else gradient


def _own(packet: Packet, slot: Slot, parameter: torch.Tensor) -> torch.Tensor:
    """A tensor of the slot's content; what has the parameter's shape also has its order in memory."""
    sent, device = packet.at(slot), "cpu" if slot[3] == "cpu" else parameter.device
    like = parameter.detach() if sent.shape == parameter.shape else sent
    return torch.empty_like(like, dtype=sent.dtype, device=device).copy_(sent)
