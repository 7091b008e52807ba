"""Many tensors, and whatever else, between the ranks in few messages."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from freetrain.elastic.worlds.collectives import Ranks
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

# As torch words what it does not load.
_GLOBAL = re.compile(r"GLOBAL (\S+)")
CHUNK_BYTES = 4 << 20
"""Small tensors travel together in pieces of this size, large ones alone."""


def broadcast_bytes(content: bytes | None, source: int, world: World) -> bytes:
    """The source's bytes, which gives them as content; the others give None."""
    # Receivers have to know how much comes before they can make room for it.
    length = torch.tensor([len(content or b"")])
    world.broadcast(length, source)
    payload = torch.empty(int(length), dtype=torch.uint8)
    if content is not None:
        payload = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    world.broadcast(payload, source)
    return bytes(payload.numpy().tobytes()) if content is None else content


def gather_announced(content: bytes, world: World) -> list[bytes]:
    """Bytes of all ranks, in order of rank, announced to all ranks before, as the script asks for them."""
    calls = world.ask("values of all ranks", size=len(content)).wait()
    return _gather(content, [call.size for call in calls], world)


def gather_bytes(content: bytes, world: World) -> list[bytes]:
    """Bytes of all ranks, in order of rank."""
    return _gather(content, [length for (length,) in world.gather([len(content)])], world)


def _gather(content: bytes, lengths: Sequence[int], world: World) -> list[bytes]:
    padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
    if content:
        padded[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    rows = world.start_gather(padded)()
    return [bytes(row[:length].numpy().tobytes()) for row, length in zip(rows, lengths, strict=True)]


def encode(document: Any) -> bytes:
    """The document in torch's own format."""
    stream = io.BytesIO()
    torch.save(document, stream)
    return stream.getvalue()


def decode(content: bytes, device: str | None = None) -> Any:
    """The document, without running code: numbers, strings, containers, and tensors on this device.

    Without a device tensors are on this rank's GPU if they were on the sender's, else on the CPU.

    Raises:
        InputError: there is something else in it.
    """
    try:
        return torch.load(io.BytesIO(content), weights_only=True, map_location=device or _on_own_device)
    except pickle.UnpicklingError as error:
        found = _GLOBAL.search(str(error))
        raise InputError(
            f"what the workers exchange holds {found[1] if found else 'an object of another kind'}.",
            "Newcomers and checkpoints can have numbers, strings, tensors, and lists and dictionaries of them: "
            "let state_dict() return, and collective calls take, no others.",
        ) from None


def _on_own_device(storage: Any, location: str) -> Any:
    """The storage, moved to this rank's GPU if it was on the sender's."""
    # As torch loads it, it would go to the GPU with the sender's number, which may be another rank's or missing.
    return storage.cuda() if location.startswith("cuda") and torch.cuda.is_available() else storage


def decode_all(contents: Iterable[bytes]) -> list[Any]:
    """The documents of ranks that sent one."""
    return [decode(content) for content in contents if content]


def broadcast_tensors(tensors: Iterable[torch.Tensor], source: int, world: Ranks) -> None:
    """Copy the source's values into the tensors of all ranks."""
    with torch.no_grad():
        for pack in _filled(tensors):
            flat = flatten(pack)
            world.broadcast(flat, source)
            unflatten(flat, pack)


def start_broadcast(tensors: Iterable[torch.Tensor], source: int, world: World) -> Callable[[], None]:
    """Begin to copy the source's values into the tensors of all ranks; returns a function that waits for them."""
    packs = [(flatten(pack), pack) for pack in _filled(tensors)]
    finishes = [world.start_broadcast(flat, source) for flat, _ in packs]

    def finish() -> None:
        for end, (flat, pack) in zip(finishes, packs, strict=True):
            end()
            unflatten(flat, pack)

    return finish


def add_up_tensors(tensors: Iterable[torch.Tensor], world: Ranks) -> None:
    """Sum tensors over all ranks, in place on each."""
    with torch.no_grad():
        packs = list(_filled(tensors))
        flats = [flatten(pack) for pack in packs]
        if flats:
            world.add_up(flats)
        for flat, pack in zip(flats, packs, strict=True):
            unflatten(flat, pack)


def _filled(tensors: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    return packs_of(tensor for tensor in tensors if tensor.numel())


def packs_of(tensors: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Large tensors alone, small ones together by type, as messages cost round trips."""
    packs: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        if bytes_of(tensor) >= CHUNK_BYTES:
            yield [tensor]
            continue
        pack = packs.setdefault((tensor.dtype, tensor.device), [])
        pack.append(tensor)
        if sum(map(bytes_of, pack)) >= CHUNK_BYTES:
            yield packs.pop((tensor.dtype, tensor.device))
    yield from packs.values()


def flatten(pack: Sequence[torch.Tensor]) -> torch.Tensor:
    """All values in order, as some ranks may have them in another order in memory; of one tensor no copy."""
    if len(pack) == 1:
        return pack[0].reshape(-1)
    return torch.cat([tensor.reshape(-1) for tensor in pack]) if pack else torch.empty(0)


def unflatten(flat: torch.Tensor, pack: Sequence[torch.Tensor]) -> None:
    """Copy values in the order of ``flatten`` back into tensors; what follows the last one's is left alone."""
    offset = 0
    for tensor in pack:
        if tensor.data_ptr() != flat.data_ptr():
            tensor.copy_(flat[offset : offset + tensor.numel()].view_as(tensor))
        offset += tensor.numel()


def bytes_of(tensor: torch.Tensor) -> int:
    """Size of the tensor's values."""
    return tensor.numel() * tensor.element_size()
