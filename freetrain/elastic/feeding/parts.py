"""A training's state in parts: each parameter with what its optimizer knows of it, and the rest."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import torch

from freetrain.elastic.feeding.link import FeedError
from freetrain.elastic.training.state import TrainingState, layout_of, parameters_in, set_hyperparameters
from freetrain.elastic.training.tensors import is_sharded, local, with_local
from freetrain.elastic.worlds.calls import digest_of
from freetrain.elastic.worlds.exchange import bytes_of

_PLAIN = (int, float, bool, str, type(None))
Slot: TypeAlias = tuple[int, list[int], str, str]
"""Place of a tensor in a packet: offset in bytes, shape, type, kind of the device that it came from."""

# Torch views memory as a type only where it is aligned for that.
_ALIGN_BYTES = 64
# One core copies six gigabytes a second, two nearly twice as much; with four the memory is busy.
_MAX_CORES = 4


class StateParts:
    """The parameters in an order that is the same on all ranks; of a sharded one, this worker's shard."""

    def __init__(self, state: TrainingState) -> None:
        self._optimizers = state.optimizers
        self._optimizer_of = {own: optimizer for optimizer in self._optimizers for own in parameters_in(optimizer)}
        every = dict.fromkeys([*self._optimizer_of, *state.module.parameters()])
        self.parameters: list[torch.Tensor] = list(every)
        self.layout = digest_of(layout_of(state.module, state.optimizers))

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def gradient_bytes(self) -> int:
        """Room for a gradient of each."""
        return sum(room_for(local(parameter)) for parameter in self.parameters)

    def size_bytes(self, index: int) -> int:
        """Room for one part as it is now."""
        return sum(
            room_for(local(parameter)) for parameter in (self.parameters[index], *self._known_tensors(index))
        )

    # -- at the source

    def versions(self) -> list[tuple[int, int]]:
        """Versions that differ after any change that torch counts, of parameters or of the optimizers' tensors."""
        # Of sharded ones the whole: to_local() gives a new alias each time, whose changes are not counted.
        known = (tensor for index in range(len(self)) for tensor in self._known_tensors(index))
        return [(id(parameter), parameter._version) for parameter in (*self.parameters, *known)]

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
        """Put one part into the packet; returns its description."""
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
        """Take one part out of the packet, as the source has it."""
        parameter = self.parameters[part["index"]]
        mine, value = local(parameter), packet.at(part["value"])
        if value.shape != mine.shape or value.dtype != mine.dtype:
            raise FeedError("the source has other parameters, or has them in another order")
        with torch.no_grad():
            mine.copy_(value)
        known: dict[str, Any] = dict(part["plain"])
        for name, slot in part["slots"].items():
            sent, device = packet.at(slot), "cpu" if slot[3] == "cpu" else mine.device
            # What has the parameter's shape also has its order in memory.
            like = mine.detach() if sent.shape == mine.shape else sent
            own = torch.empty_like(like, dtype=sent.dtype, device=device).copy_(sent)
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
        set_hyperparameters(groups, optimizer)
        for index, slot in message["gradients"].items():
            sent, parameter = packet.at(slot), self.parameters[index]
            mine = local(parameter)
            # In the parameter's order of memory, as optimizers may rely on it.
            is_plain = mine.device.type == "cpu" and mine.is_contiguous()
            gradient = sent if is_plain else torch.empty_like(mine).copy_(sent)
            parameter.grad = with_local(parameter, gradient) if is_sharded(parameter) else gradient
        try:
            optimizer.step()
        finally:
            for parameter in self.parameters:
                parameter.grad = None

    def _known(self, index: int) -> Mapping[str, Any]:
        """The optimizer's state of one parameter."""
        parameter = self.parameters[index]
        optimizer = self._optimizer_of.get(parameter)
        # With get(): the state is a defaultdict, in which asking by index leaves an entry.
        known: Mapping[str, Any] = {} if optimizer is None else optimizer.state.get(parameter, {})
        return known

    def _known_tensors(self, index: int) -> list[torch.Tensor]:
        return [value for value in self._known(index).values() if isinstance(value, torch.Tensor)]


class Packet:
    """Memory that is filled with one tensor after the other, each in its logical order, and read out again."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = torch.frombuffer(memory, dtype=torch.uint8)
        self.used_bytes = 0

    @property
    def room_bytes(self) -> int:
        """Bytes of the memory that are still free."""
        return self._memory.numel() - self.used_bytes

    def put(self, tensor: torch.Tensor) -> Slot:
        """Copy a tensor to the end; the caller knows that there is room."""
        offset = self.used_bytes
        slot = (offset, list(tensor.shape), str(tensor.dtype), tensor.device.type)
        self.used_bytes += room_for(tensor)
        self.at(slot).copy_(tensor.detach())
        return slot

    def put_all(self, tensors: Iterable[torch.Tensor]) -> list[Slot]:
        """Copy tensors while nobody trains."""
        own_threads = torch.get_num_threads()
        # All others wait for these bytes, so nobody needs the cores.
        torch.set_num_threads(max(own_threads, min(_MAX_CORES, len(os.sched_getaffinity(0)))))
        try:
            return list(map(self.put, tensors))
        finally:
            torch.set_num_threads(own_threads)

    def at(self, slot: Slot) -> torch.Tensor:
        """The tensor of this slot, in the memory itself."""
        offset, shape, name, _ = slot
        dtype: torch.dtype = getattr(torch, name.removeprefix("torch."))
        length = torch.Size(shape).numel() * dtype.itemsize
        return self._memory[offset : offset + length].view(dtype).view(shape)


def room_for(tensor: torch.Tensor) -> int:
    """Bytes that the tensor takes up in a packet."""
    return -(-bytes_of(tensor) // _ALIGN_BYTES) * _ALIGN_BYTES
