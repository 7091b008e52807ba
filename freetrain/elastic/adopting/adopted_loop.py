"""The loop in which an adopted script trains without knowing of it: its epochs are the script's own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler

from freetrain.elastic.data.drawing import KEPT_OPTIONS
from freetrain.elastic.script.gradients import parameters_of
from freetrain.elastic.script.loop import Loop
from freetrain.elastic.training.state import Stateful, hyperparameters, set_hyperparameters

# Epochs of a script that says by its end how many there are.
_ENDLESS = 1 << 40


class AdoptedLoop(Loop):
    """A training whose batches are those of N ranks together."""

    _name = "the training's loader"

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        loader: DataLoader[Any],
        carried: Sequence[Stateful],
    ) -> None:
        also = {f"adopted.{place}": item for place, item in enumerate(carried)}
        # A model that is alone keeps the names of its parameters: in a list they would begin with its place.
        given = models[0] if len(models) == 1 else models
        super().__init__(given, optimizers, batches_of_all(loader), epochs=_ENDLESS, also=also)
        self._epochs = self.epochs()

    @property
    def epoch(self) -> int:
        """The epoch in which the training is, as the script counts them."""
        return self.state.sampler.epoch

    def enter(self, epoch: int) -> None:
        """Join, and come to the state of the others; the script is in this epoch."""
        self.__enter__()
        next(self._epochs)
        if not self.state.is_begun and self.step == 0:
            # A script that goes on from a snapshot of its own begins with a later epoch.
            self.state.sampler.epoch = max(self.epoch, epoch)
        self._is_catching_up = self._is_catching_up or epoch < self.epoch
        self._note_epoch()

    def next_epoch(self, epoch: int) -> None:
        """The script begins a loop over its loader; one without a step before it was no epoch."""
        if self.state.sampler.batches or self._updates.count:
            next(self._epochs)
        self._updates.forget()
        # A script that only looks at a first batch may do so before it says which epoch comes.
        self.state.sampler.epoch = max(self.epoch, epoch)
        self._drawing.restart()
        self._note_epoch()

    def sum_gradients_of(self, parameters: Sequence[torch.Tensor]) -> None:
        """Add these parameters' gradients up, as DistributedDataParallel would have done by now."""
        wanted = set(parameters)
        with self._training.ending_the_process():
            for optimizer in self._optimizers:
                if not wanted.isdisjoint(parameters_of(optimizer)):
                    self._updates.sum_if_due(optimizer)

    def finish(self) -> None:
        """The script has come to its end: the epoch under way is the last one."""
        sampler = self.state.sampler
        sampler.epochs = sampler.epoch if self._is_catching_up else sampler.epoch + 1
        for _ in self._epochs:
            pass

    @property
    def is_in_step(self) -> bool:
        """Whether a step of an optimizer belongs to a batch of the training's loader."""
        return self._updates.is_under_way

    def _note_epoch(self) -> None:
        """Let newcomers know how far to rehearse before they join."""
        if self.is_main:
            self._training.session.directory.note_epoch(self.epoch)


class Beside:
    """What a rehearsal changes although its optimizers do nothing: buffers, schedules, learning rates."""

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        carried: Sequence[Stateful],
    ) -> None:
        self._buffers = [(buffer, buffer.detach().clone()) for model in models for buffer in model.buffers()]
        self._groups = [(optimizer, copy.deepcopy(hyperparameters(optimizer))) for optimizer in optimizers]
        self._items = [(item, copy.deepcopy(item.state_dict())) for item in carried]

    def put_back(self) -> None:
        """Make all as it was."""
        with torch.no_grad():
            for buffer, before in self._buffers:
                buffer.copy_(before)
        # Copies: it is put back more than once, and load_state_dict() may keep what it is given.
        for item, state in self._items:
            item.load_state_dict(copy.deepcopy(state))
        for optimizer, groups in self._groups:
            set_hyperparameters(optimizer, copy.deepcopy(groups))


def batches_of_all(loader: DataLoader[Any]) -> DataLoader[Any]:
    """A loader whose batches are those of all ranks of the script's DistributedSampler together."""
    sampler: Any = loader.sampler
    options = {name: getattr(loader, name) for name in (*KEPT_OPTIONS, "drop_last")}
    together = (loader.batch_size or 1) * sampler.num_replicas
    return DataLoader(loader.dataset, together, sampler=WholeOrder(sampler), **options)


class WholeOrder(torch.utils.data.Sampler[int]):
    """The samples of all ranks of a DistributedSampler, one of each rank at a time.

    Rank r of N has every Nth sample from the rth on, so a batch of all ranks is one piece of this order.
    """

    def __init__(self, sampler: DistributedSampler[Any]) -> None:
        self._follows_epochs = follows_epochs(sampler)
        self._sampler = copy.copy(sampler)
        # One rank of one, but as many samples as N ranks have, repeated ones included.
        self._sampler.num_replicas, self._sampler.rank = 1, 0
        self._sampler.num_samples = sampler.total_size

    def __len__(self) -> int:
        return self._sampler.num_samples

    def __iter__(self) -> Iterator[int]:
        return iter(self._sampler)

    def set_epoch(self, epoch: int) -> None:
        """Order by this epoch, if the script does that at all."""
        if self._follows_epochs:
            self._sampler.set_epoch(epoch)


def follows_epochs(sampler: DistributedSampler[Any]) -> bool:
    """Whether the script has called ``set_epoch``."""
    return bool(getattr(sampler, "follows_epochs", False))


def divide(sampler: DistributedSampler[Any], rank: int, size: int) -> None:
    """Let the sampler give this rank's part in a world of this size."""
    epoch = sampler.epoch
    # Torch's constructor computes the lengths that follow from rank and size; it also begins with epoch 0.
    DistributedSampler.__init__(
        sampler, sampler.dataset, size, rank, sampler.shuffle, sampler.seed, sampler.drop_last
    )
    sampler.epoch = epoch
