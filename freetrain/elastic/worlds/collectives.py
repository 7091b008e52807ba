"""Collectives that cannot hold the training up for ever, and what travels with them: tensors and documents.

Gloo (as in torch 2.13) forgets a send that is queued when its connection fails: no error comes, and waiting for it
means waiting for its timeout. So no rank waits for the transport alone: once the world has been cut, a wait that
does not end soon is given up, and what still runs is left to itself.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.worlds.device import give_back_pages
from freetrain.elastic.worlds.replica import Replica
from freetrain.errors import InputError

if TYPE_CHECKING:
    from freetrain.elastic.worlds.world import World

# After the cut, collectives get this long to fail by themselves, as nearly all do at once.
_GRACE_S = 0.1
_SLICE = timedelta(seconds=0.05)
# As torch words what it does not load.
_GLOBAL = re.compile(r"GLOBAL (\S+)")
CHUNK_BYTES = 4 << 20
"""Small tensors travel together in pieces of this size, large ones alone."""


class Collectives:
    """The collectives that are under way in one world.

    ``while_waiting`` is called again and again with the seconds waited so far; it may raise what ends the wait.
    """

    def __init__(self, while_waiting: Callable[[float], object] = lambda _: None) -> None:
        self.started = 0
        self._while_waiting = while_waiting
        self._under_way: deque[tuple[Any, torch.Tensor | None]] = deque()
        self._cut_s: float | None = None

    def start(self, begin: Callable[[], Any], spare: torch.Tensor | None = None) -> Any:
        """Begin a collective and watch it; raises LostRankError if the transport says that it cannot."""
        self.started += 1
        try:
            work = begin()
        except RuntimeError as error:
            raise LostRankError(str(error)) from error
        while self._under_way and self._under_way[0][0].is_completed():
            self._under_way.popleft()
        # What is spare the transport holds meanwhile, and nobody needs its values once the world is lost.
        self._under_way.append((work, spare))
        return work

    def finish(self, *works: Any) -> None:
        """Wait until they have ended; raises LostRankError if one failed, or was cut and does not end."""
        for work in works:
            self._finish(work)

    def _finish(self, work: Any) -> None:
        begun_s = time.monotonic()
        while not work.is_completed():
            # In slices: gloo may have forgotten this collective, and then its wait would not end.
            with contextlib.suppress(RuntimeError):
                work.wait(_SLICE)
            if self._overdue() and not work.is_completed():
                raise LostRankError("a collective did not end after its world was cut")
            self._while_waiting(time.monotonic() - begun_s)
        # What has failed is completed, too: wait() raises its error.
        try:
            work.wait()
        except RuntimeError as error:
            raise LostRankError(str(error)) from error

    def cut(self) -> None:
        """The world's connections are cut: no wait lasts much longer."""
        self._cut_s = self._cut_s or time.monotonic()

    def ended(self) -> bool:
        """After a cut: whether all have ended, given a moment to do so."""
        self.cut()
        while not (ended := all(work.is_completed() for work, _ in self._under_way)) and not self._overdue():
            time.sleep(0.001)
        return ended

    def forget(self) -> None:
        """All have ended: hold their tensors no longer."""
        self._under_way.clear()

    def abandon(self) -> None:
        """After a cut: some never end, and hold their tensors for ever."""
        for work, spare in self._under_way:
            # The values are of a step that is lost: the system gets the memory back nevertheless.
            if spare is not None and not work.is_completed():
                give_back_pages(spare)
        self.forget()

    def _overdue(self) -> bool:
        return self._cut_s is not None and time.monotonic() - self._cut_s > _GRACE_S


class Ranks:
    """All ranks of a world, or those that have the same shard of the model, with their process group.

    What fails raises LostRankError, at once or when it is waited for.
    """

    def __init__(self, size: int, collectives: Collectives, replica: Replica) -> None:
        self.size = size
        self.group: dist.ProcessGroup | None = None
        self._collectives = collectives
        self._replica = replica

    def sum(self, values: list[float]) -> list[float]:
        """The sums of some numbers over the ranks."""
        tensor = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: self._collectives.finish(self.start_all_reduce(tensor)))
        return [float(value) for value in tensor.tolist()]

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor, in place."""
        self.start_add_up(tensors)()

    def start_add_up(self, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
        """Begin to sum each tensor, in place; what waits for the sums."""
        works = [self.start_all_reduce(tensor) for tensor in tensors]
        return lambda: self.finish(works)

    def finish(self, works: Sequence[Any]) -> None:
        """Wait for what this rank has begun."""
        self._together(lambda: self._collectives.finish(*works))

    def start_gather(self, mine: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
        """Begin to give everybody all tensors, of one size; what waits for them, in order of rank."""
        all_ = [torch.empty_like(mine) for _ in range(self.size)]
        work = self._collectives.start(lambda: dist.all_gather(all_, mine, group=self.group, async_op=True))

        def rows() -> list[torch.Tensor]:
            self.finish([work])
            return all_

        return rows

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Give everybody the source's tensor, in place."""
        self.start_broadcast(tensor, source)()

    def start_all_reduce(self, tensor: torch.Tensor) -> Any:
        """Begin to sum a tensor in place, which nobody needs if that fails."""
        return self._collectives.start(lambda: dist.all_reduce(tensor, group=self.group, async_op=True), tensor)

    def start_broadcast(self, tensor: torch.Tensor, source: int) -> Callable[[], None]:
        """Begin to give everybody the source's tensor; what waits for it."""
        work = self._collectives.start(lambda: dist.broadcast(tensor, source, group=self.group, async_op=True))
        return lambda: self.finish([work])

    def _together(self, operation: Callable[[], None]) -> None:
        # Workers of one replica cannot go on without each other: what failed for one has failed for all.
        try:
            operation()
        except LostRankError:
            self._replica.agree(False)
            raise
        if not self._replica.agree(True):
            raise LostRankError("another worker of this node was cut off from its peers")


# -- many tensors, and whatever else, in few messages


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
    """Everybody's bytes, in order of rank, announced to all ranks before, as the script asks for them."""
    calls = world.ask("values of all ranks", size=len(content)).wait()
    return _gather(content, [call.size for call in calls], world)


def gather_bytes(content: bytes, world: World) -> list[bytes]:
    """Everybody's bytes, in order of rank."""
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
    """Without running code: numbers, strings, tensors (on this device, or on those they come from), containers.

    Raises:
        InputError: there is something else in it.
    """
    try:
        return torch.load(io.BytesIO(content), weights_only=True, map_location=device)
    except pickle.UnpicklingError as error:
        found = _GLOBAL.search(str(error))
        raise InputError(
            f"what the workers exchange holds {found[1] if found else 'an object of another kind'}.",
            "Newcomers and checkpoints can have numbers, strings, tensors, and lists and dictionaries of them: "
            "let state_dict() return, and collective calls take, no others.",
        ) from None


def decode_all(contents: Iterable[bytes]) -> list[Any]:
    """The documents of ranks that sent one."""
    return [decode(content) for content in contents if content]


def broadcast_tensors(tensors: Iterable[torch.Tensor], source: int, world: Ranks) -> None:
    """The source's values into everybody's tensors."""
    with torch.no_grad():
        for pack in _filled(tensors):
            flat = flatten(pack)
            world.broadcast(flat, source)
            unflatten(flat, pack)


def start_broadcast(tensors: Iterable[torch.Tensor], source: int, world: World) -> Callable[[], None]:
    """Begin to bring the source's values into everybody's tensors; what waits for them."""
    packs = [(flatten(pack), pack) for pack in _filled(tensors)]
    finishes = [world.start_broadcast(flat, source) for flat, _ in packs]

    def finish() -> None:
        for end, (flat, pack) in zip(finishes, packs, strict=True):
            end()
            unflatten(flat, pack)

    return finish


def add_up_tensors(tensors: Iterable[torch.Tensor], world: Ranks) -> None:
    """The sums over all ranks into everybody's tensors."""
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
    """The reverse; what follows the last tensor's values is left alone."""
    offset = 0
    for tensor in pack:
        if tensor.data_ptr() != flat.data_ptr():
            tensor.copy_(flat[offset : offset + tensor.numel()].view_as(tensor))
        offset += tensor.numel()


def bytes_of(tensor: torch.Tensor) -> int:
    """Size of the tensor's values."""
    return tensor.numel() * tensor.element_size()
