"""Copies of the training's state that stay as they are while the training goes on."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

from freetrain.elastic.training.shards import is_sharded, local, with_local


class StateCopy:
    """Copies a state into the computer's memory, each time over the copy before: there is never a second one.

    Tensors that share memory share it in the copy too, and have their strides, as in what torch.save writes.
    """

    def __init__(self) -> None:
        self._kept: list[torch.UntypedStorage] = []

    def of(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state as it is now; the copy before is valid no more."""
        spare: defaultdict[int, list[torch.UntypedStorage]] = defaultdict(list)
        for storage in self._kept:
            spare[storage.nbytes()].append(storage)
        copied: dict[int, torch.UntypedStorage] = {}
        copies: dict[int, Any] = {}
        for tensor in _plain_tensors(state):
            mine = local(tensor)
            original = mine.untyped_storage()
            if original.data_ptr() not in copied:
                size_bytes = original.nbytes()
                memory = spare[size_bytes].pop() if spare[size_bytes] else _new_memory(size_bytes)
                copied[original.data_ptr()] = memory.copy_(original)
            like = _like(mine, copied[original.data_ptr()])
            copies[id(tensor)] = with_local(tensor, like) if is_sharded(tensor) else like
        self._kept = list(copied.values())
        # All the rest, numbers in containers of any kind, is copied as Python does it.
        return copy.deepcopy(state, copies)


def _new_memory(size_bytes: int) -> torch.UntypedStorage:
    return torch.empty(size_bytes, dtype=torch.uint8, device="cpu").untyped_storage()


def _like(tensor: torch.Tensor, memory: torch.UntypedStorage) -> torch.Tensor:
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def _plain_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Those that are nothing but memory with a shape."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _plain_tensors(item)
    elif is_sharded(value) or (
        type(value) is torch.Tensor and value.layout is torch.strided and not _is_special(value)
    ):
        yield value


def _is_special(tensor: torch.Tensor) -> bool:
    return tensor.is_quantized or tensor.is_meta or tensor.is_conj() or tensor.is_neg()
