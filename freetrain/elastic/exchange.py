"""Many tensors from one rank to all others in few messages."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from freetrain.elastic.world import World

_CHUNK_BYTES = 4 << 20
"""Small tensors travel together in pieces of this size, large ones alone."""


def broadcast_bytes(content: bytes | None, source: int, world: World) -> bytes:
    """The source's bytes, which gives them as content; the others give None."""
    length = torch.tensor([len(content or b"")])
    world.broadcast(length, source)
    payload = torch.empty(int(length), dtype=torch.uint8)
    if content is not None:
        payload = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    world.broadcast(payload, source)
    return bytes(payload.numpy().tobytes()) if content is None else content


def broadcast_tensors(tensors: Iterable[torch.Tensor], source: int, world: World) -> None:
    """The source's values into everybody's tensors; small ones packed by type, as messages cost round trips."""
    packs: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    with torch.no_grad():
        for tensor in tensors:
            if _bytes(tensor) >= _CHUNK_BYTES:
                _broadcast_alone(tensor, source, world)
            elif tensor.numel():
                pack = packs.setdefault((tensor.dtype, tensor.device), [])
                pack.append(tensor)
                if sum(map(_bytes, pack)) >= _CHUNK_BYTES:
                    _broadcast_pack(packs.pop((tensor.dtype, tensor.device)), source, world)
        for pack in packs.values():
            _broadcast_pack(pack, source, world)


def _broadcast_alone(tensor: torch.Tensor, source: int, world: World) -> None:
    """In place where the values lie in order; elsewhere through a copy, since others may have them in order."""
    ordered = tensor.contiguous()
    world.broadcast(ordered, source)
    if ordered is not tensor:
        tensor.copy_(ordered)


def _broadcast_pack(pack: list[torch.Tensor], source: int, world: World) -> None:
    flat = torch.cat([tensor.reshape(-1) for tensor in pack])
    world.broadcast(flat, source)
    offset = 0
    for tensor in pack:
        tensor.copy_(flat[offset : offset + tensor.numel()].view_as(tensor))
        offset += tensor.numel()


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
