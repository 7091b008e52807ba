"""The loop in which an adopted script trains without knowing, over what all ranks of its sampler take together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from freetrain.elastic.adopting.counts import ScriptCounts
from freetrain.elastic.adopting.samplers import batches_of_all
from freetrain.elastic.script.gradients import parameters_of
from freetrain.elastic.script.loop import Loop
from freetrain.elastic.training.state import Stateful

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
        counts: ScriptCounts,
    ) -> None:
        also = {f"adopted.{place}": item for place, item in enumerate(carried)}
        # A model that is alone keeps the names of its parameters: in a list they would begin with its place.
        given = models[0] if len(models) == 1 else models
        also["adopted.counts"] = self._counts = counts
        super().__init__(given, optimizers, batches_of_all(loader), epochs=_ENDLESS, also=also)
        self._epochs = self.epochs()

    @property
    def epoch(self) -> int:
        """The epoch in which the training is, as the script counts them."""
        return self.state.sampler.epoch

    def take(self) -> tuple[int, Any] | None:
        """This rank's part of the next batch; the script then counts as the training does."""
        if self._updates.is_complete or not self._updates.is_under_way:
            self._counts.begin_step()
        taken = super().take()
        self._counts.begin_batch()
        return taken

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
            for optimizer in self.state.optimizers:
                if not wanted.isdisjoint(parameters_of(optimizer)):
                    self._updates.sum_if_due(optimizer)

    def finish(self) -> None:
        """The script has come to its end: the epoch under way is the last one."""
        sampler = self.state.sampler
        sampler.epochs = sampler.epoch if self._is_catching_up else sampler.epoch + 1
        for _ in self._epochs:
            pass

    @property
    def have_unequal_parts(self) -> bool:
        """Whether the ranks' parts of a batch differ in size."""
        return bool(self._drawing.batch.per_step(self.world_size) % self.world_size)

    @property
    def is_before_update(self) -> bool:
        """Whether the script has taken a batch for which an optimizer has to step yet."""
        return self._updates.is_under_way and not self._updates.is_complete

    @property
    def is_in_step(self) -> bool:
        """Whether a step of an optimizer belongs to a batch of the training's loader."""
        return self._updates.is_under_way

    def _note_epoch(self) -> None:
        """Let newcomers know how far to rehearse before they join."""
        if self.is_main:
            self._training.session.directory.note_epoch(self.epoch)
