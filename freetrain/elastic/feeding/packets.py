"""Tensors in one piece of memory, and documents that say where each of them is."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

Slot: TypeAlias = tuple[int, list[int], str, str]
"""Where a tensor is: offset in bytes, shape, type, kind of the device that it came from."""

_ALIGN_BYTES = 64
_MOST_CORES = 4
"""One core copies six gigabytes a second, two nearly twice as much; with four the memory is busy."""


class Packet:
    """Memory that is filled with one tensor after the other, each in its logical order, and read out again.

    Args:
        memory: its bytes.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = torch.frombuffer(memory, dtype=torch.uint8)
        self.used_bytes = 0

    @property
    def room_bytes(self) -> int:
        """How much more there is room for."""
        return self._memory.numel() - self.used_bytes

    def put(self, tensor: torch.Tensor) -> Slot:
        """Copy a tensor to the end; the caller knows that there is room."""
        offset = self.used_bytes
        slot = (offset, list(tensor.shape), str(tensor.dtype), tensor.device.type)
        self.used_bytes += room_for(tensor)
        self.at(slot).copy_(tensor.detach())
        return slot

    def put_all(self, tensors: Iterable[torch.Tensor]) -> list[Slot]:
        """Copy tensors while nobody trains, whose cores may help."""
        own_threads = torch.get_num_threads()
        torch.set_num_threads(max(own_threads, min(_MOST_CORES, len(os.sched_getaffinity(0)))))
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
    length = tensor.numel() * tensor.element_size()
    return -(-length // _ALIGN_BYTES) * _ALIGN_BYTES


def decode(content: bytes) -> dict[str, Any]:
    """What ``freetrain.elastic.worlds.exchange.encode`` made, on the CPU; it is loaded without running code."""
    document: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    return document


def size_of(document: Any) -> int:
    """Bytes of the tensors in a document."""
    if isinstance(document, torch.Tensor):
        return document.numel() * document.element_size()
    if isinstance(document, dict):
        return sum(map(size_of, document.values()))
    if isinstance(document, list | tuple):
        return sum(map(size_of, document))
    return 0
