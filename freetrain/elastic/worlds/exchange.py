"""Many tensors, and whatever else, between the ranks in few messages."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from freetrain.elastic.worlds.ranks import Ranks
from freetrain.elastic.worlds.world import World

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


def gather_bytes(content: bytes, world: World) -> list[bytes]:
    """Everybody's bytes, in order of rank."""
    lengths = [length for (length,) in world.gather([len(content)])]
    padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
    if content:
        padded[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    rows = world.gather_tensor(padded)
    return [bytes(row[:length].numpy().tobytes()) for row, length in zip(rows, lengths, strict=True)]


def encode(document: Any) -> bytes:
    """In torch's own format."""
    stream = io.BytesIO()
    torch.save(document, stream)
    return stream.getvalue()


def decode(content: bytes) -> Any:
    """Without running code: numbers, strings, tensors and plain containers."""
    return torch.load(io.BytesIO(content), weights_only=True)


def decode_all(contents: Iterable[bytes]) -> list[Any]:
    """Of those who had something to say."""
    return [decode(content) for content in contents if content]


def broadcast_tensors(tensors: Iterable[torch.Tensor], source: int, world: World | Ranks) -> None:
    """The source's values into everybody's tensors."""
    with torch.no_grad():
        for pack in _packs(tensors):
            flat = _flat(pack)
            world.broadcast(flat, source)
            _unpack(flat, pack)


def add_up_tensors(tensors: Iterable[torch.Tensor], world: World | Ranks) -> None:
    """The sums over all ranks into everybody's tensors."""
    with torch.no_grad():
        packs = list(_packs(tensors))
        flats = [_flat(pack) for pack in packs]
        if flats:
            world.add_up(flats)
        for flat, pack in zip(flats, packs, strict=True):
            _unpack(flat, pack)


def _packs(tensors: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Large tensors alone, small ones together by type, as messages cost round trips; none is empty."""
    packs: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        if _bytes(tensor) >= _CHUNK_BYTES:
            yield [tensor]
        elif tensor.numel():
            pack = packs.setdefault((tensor.dtype, tensor.device), [])
            pack.append(tensor)
            if sum(map(_bytes, pack)) >= _CHUNK_BYTES:
                yield packs.pop((tensor.dtype, tensor.device))
    yield from packs.values()


def _flat(pack: list[torch.Tensor]) -> torch.Tensor:
    """All values in order, as some ranks may have them in another order in memory; of one tensor no copy."""
    if len(pack) == 1:
        return pack[0].reshape(-1)
    return torch.cat([tensor.reshape(-1) for tensor in pack])


def _unpack(flat: torch.Tensor, pack: list[torch.Tensor]) -> None:
    offset = 0
    for tensor in pack:
        if tensor.data_ptr() != flat.data_ptr():
            tensor.copy_(flat[offset : offset + tensor.numel()].view_as(tensor))
        offset += tensor.numel()


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
