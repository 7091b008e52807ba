"""Data that can only be read in order: every rank reads all of it, and keeps its share of each batch."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from freetrain.elastic.data.batching import Draw, FixedBatch, Sampler, ScaledBatch, StepBatches
from freetrain.elastic.worlds.calls import digest_of
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

# Enough to tell batches of different samples apart: hashing all values would take time in each step.
_MARKED_VALUES = 4


def is_stream(data: Any) -> bool:
    """Whether its samples cannot be asked for by number."""
    data = data.dataset if isinstance(data, DataLoader) else data
    return isinstance(data, IterableDataset) or not (isinstance(data, int) or hasattr(data, "__getitem__"))


class Streaming(StepBatches):
    """Batches of samples that come one after the other.

    The data's place moves with the model: by the data's own ``state_dict`` and ``load_state_dict`` if it has them,
    or else by reading again, from the start of the epoch, what has been read in it.

    Args:
        data: an iterable that begins again with each epoch, or a DataLoader of one without worker processes.
    """

    def __init__(self, data: Any, sampler: Sampler, batch: FixedBatch | ScaledBatch) -> None:
        super().__init__(data.dataset if isinstance(data, DataLoader) else data, sampler, batch)
        self._collate: Any = data.collate_fn if isinstance(data, DataLoader) else default_collate
        self._is_stateful = hasattr(self.dataset, "state_dict") and hasattr(self.dataset, "load_state_dict")
        self._before: dict[str, Any] = {}
        self._has_read = False

    # -- what is carried along

    def state_dict(self) -> dict[str, Any]:
        """State of the data before the step under way."""
        # Within a step the data is further than the training, which goes on from where the step began if
        # it is lost.
        knows = self._is_stateful and self._has_read and not self.taken
        return dict(self.dataset.state_dict()) if knows else self._before

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._before = state_dict
        self._is_stale = True
        self._has_read = False

    # -- batches

    def restart(self) -> None:
        """Start again, as the world, the epoch or the position is another one."""
        self.load_state_dict(self.state_dict())

    def _take(self, world: World) -> tuple[Draw, Any] | None:
        if not self.taken:
            self._before = self.state_dict()
        wanted = self.batch.per_step(world.size)
        items = list(islice(self._iterator, wanted))
        self._has_read = bool(items)
        if not items or (self._sampler.drop_last and len(items) < wanted):
            return None
        draw, mine = self.note_read(len(items), world)
        return draw, self._collate([items[place] for place in mine])

    def batches_per_epoch(self, world_size: Callable[[], int]) -> int:
        """Raise TypeError: the number is not known before the end."""
        raise TypeError("data that can only be read in order has no length")

    def _begin(self, world: World) -> None:
        position = self._sampler.position
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(self._sampler.epoch)
        # At the start of an epoch the state is that of the end of the one before.
        if position and self._is_stateful:
            self.dataset.load_state_dict(self._before)
        self._iterator = iter(self.dataset)
        if not self._is_stateful:
            next(islice(self._iterator, position, position), None)


def makes_own_batches(data: Any) -> bool:
    """Whether the loader itself says what a batch is, so that batches cannot be asked for by number."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(loader, DataLoader) for loader in data)
    if isinstance(data, DataLoader):
        return data.batch_size is None or type(data).__iter__ is not DataLoader.__iter__
    return not hasattr(data, "__getitem__") and not isinstance(data, int | IterableDataset)


class OwnBatches(StepBatches):
    """Batches of a loader that is read in order; of several, one of each at a time.

    All ranks have to read the same batches, which is compared in each step. Random numbers that the loader draws
    are the same on all ranks: they depend on the seed, the epoch and the batch.
    """

    def __init__(self, data: Any, sampler: Sampler, seed: int) -> None:
        loaders = list(data) if isinstance(data, list | tuple) else [data]
        super().__init__(getattr(loaders[0], "dataset", data), sampler, FixedBatch(1))
        self._loaders = loaders
        self._is_one = not isinstance(data, list | tuple)
        self._seed = seed
        self._read = 0

    def _take(self, world: World) -> tuple[Draw, Any] | None:
        batches = self._next()
        if batches is None:
            return None
        rows = _rows(batches[0])
        draw, mine = self.note_read(rows, world)
        self.mark = digest_of(self.mark, list(map(_marks, batches)))
        shares = tuple(_share(batch, mine, rows) for batch in batches)
        return draw, shares[0] if self._is_one else shares

    def batches_per_epoch(self, world_size: object) -> int:
        """The loader's length."""
        return min(len(loader) for loader in self._loaders)

    def _begin(self, world: World) -> None:
        # First of all: worker processes of the old iterator end before new ones start.
        self._iterator = iter(())
        for loader in self._loaders:
            _set_epoch(loader, self._sampler.epoch, digest_of(self._seed, self._sampler.epoch))
        with same_random_numbers(self._seed, self._sampler.epoch):
            self._iterator = zip(*self._loaders, strict=False)
        self._read = 0
        for _ in range(self._sampler.batches + len(self.taken)):
            self._next()

    def _next(self) -> tuple[Any, ...] | None:
        # Numbers of each batch, not of a stream of them: a rank that begins in the middle draws the same.
        with same_random_numbers(self._seed, self._sampler.epoch, self._read):
            self._read += 1
            return next(self._iterator, None)


@contextlib.contextmanager
def same_random_numbers(*facts: int) -> Iterator[None]:
    """Random numbers that are the same on all ranks; the training's own stream is left as it is."""
    number, before = digest_of(*facts), random.getstate()
    # Only where the script has imported it: the runtime itself does without numpy.
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    numpys = numpy.get_state() if numpy is not None else None
    # No devices: loaders draw on the CPU, and the default copies the state of every GPU.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        random.seed(number)
        if numpy is not None:
            # NumPy's seeds have 32 bits.
            numpy.seed(number % (1 << 32))
        try:
            yield
        finally:
            random.setstate(before)
            if numpy is not None:
                numpy.set_state(numpys)


def _set_epoch(loader: Any, epoch: int, number: int) -> None:
    for part in (loader, *(getattr(loader, name, None) for name in ("dataset", "sampler", "batch_sampler"))):
        if hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
        generator = getattr(part, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(number)


def _parts(batch: Any) -> Sequence[Any] | None:
    """The parts of a batch; None: it has rows itself, or none."""
    if isinstance(batch, Mapping):
        return list(batch.values())
    # A list of numbers or strings has a row for each sample.
    if isinstance(batch, tuple | list) and any(
        isinstance(part, torch.Tensor | tuple | list | Mapping) for part in batch
    ):
        return batch
    return None


def _rows(batch: Any) -> int:
    """Samples of a batch: rows of its first tensor, or list. Raises InputError if it has none."""
    parts = _parts(batch)
    if parts is not None:
        return _rows(parts[0])
    if isinstance(batch, list | tuple) or (isinstance(batch, torch.Tensor) and batch.dim()):
        return len(batch)
    raise InputError(
        f"a batch of the loader has a {type(batch).__name__} where rows are needed, one for each sample.",
        "Let it yield tensors, lists, or tuples and dictionaries of these.",
    )


def _share(batch: Any, mine: Sequence[int], rows: int) -> Any:
    """Some rows of each of its parts."""
    parts = _parts(batch)
    if isinstance(batch, Mapping):
        return type(batch)({name: _share(part, mine, rows) for name, part in batch.items()})  # type: ignore[call-arg]
    if parts is not None:
        shared = [_share(part, mine, rows) for part in parts]
        return type(batch)(*shared) if hasattr(batch, "_fields") else type(batch)(shared)
    if not isinstance(batch, torch.Tensor | list | tuple) or len(batch) != rows:
        raise InputError(
            f"a part of a batch has other than {rows} rows, so that it cannot be divided among the ranks.",
            "Let each part of a batch have a row for each sample.",
        )
    first, end = mine[0], mine[-1] + 1
    return batch[first:end]


def _marks(batch: Any) -> list[Any]:
    """A few values, in which batches of different samples differ."""
    parts = _parts(batch)
    if parts is not None:
        return [_marks(part) for part in parts]
    if isinstance(batch, torch.Tensor):
        return [list(batch.shape), batch.reshape(-1)[:_MARKED_VALUES].tolist()]
    return [repr(item)[:80] for item in list(batch)[:_MARKED_VALUES]]
