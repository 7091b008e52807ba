"""One step of the training, as the script sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.model import ElasticModel
from freetrain.errors import InputError


class Step:
    """This rank's part of one step: iterate over its passes, call :meth:`backward` in each.

    If another rank vanishes meanwhile the iteration ends early without an error, the step does not count, and the
    runtime yields the same samples again in the world that remains.

    Args:
        number: from 1.
        epoch: from 0.
        ids: samples of the whole world.
        passes: samples of this rank, pass by pass; a rank without samples has one empty pass.
        model: the model.
        fetch: turns ids into data.
        vote: begins to agree with the other ranks on what comes next, told this rank's part of the step's mean
            loss; raises LostRankError.
    """

    def __init__(
        self,
        number: int,
        epoch: int,
        ids: list[int],
        passes: Sequence[Sequence[int]],
        model: ElasticModel,
        fetch: Callable[[Sequence[int]], Any],
        vote: Callable[[float], None],
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.ids = ids
        self.my_ids = [id_ for one in passes for id_ in one]
        self._passes = passes
        self._model = model
        self._fetch = fetch
        self._vote = vote
        self._weight = 0.0
        self._syncing = False
        self._loss: torch.Tensor | None = None
        self._buckets_before = model.summed_buckets
        self.synced = False
        self.wait_s = 0.0
        self.exposed_s = 0.0

    def __iter__(self) -> Iterator[Any]:
        """Data of each pass."""
        self._start()
        for index, ids in enumerate(self._passes):
            if self._model.lost is not None:
                return
            self._syncing = index == len(self._passes) - 1
            self._weight = len(ids) / len(self.ids)
            asked_s = time.perf_counter()
            # DDP needs every rank in every step: who has no sample repeats one with weight zero.
            data = self._fetch(ids or self.ids[:1])
            self.wait_s += time.perf_counter() - asked_s
            with self._model.syncing(self._syncing):
                yield data

    def backward(self, loss: torch.Tensor) -> None:
        """Back-propagate the mean loss of the pass's samples, weighted by their share of the step.

        What the script's own functions and hooks raise in there is raised here.
        """
        if self._model.lost is not None:
            return
        weighted = loss * self._weight
        self._loss = weighted.detach() if self._loss is None else self._loss + weighted.detach()
        try:
            if self._syncing and not self.synced:
                self._vote(float(self._loss))
            weighted.backward()  # type: ignore[no-untyped-call,unused-ignore]
        except (LostRankError, RuntimeError) as error:
            if not self._model.takes_for_loss(error):
                raise
        if self._syncing and self._model.lost is None:
            self.synced = True
            self.exposed_s = max(0.0, time.perf_counter() - self._model.last_bucket_s)

    @property
    def has_lone_sample(self) -> bool:
        """Whether this rank puts a single sample through the model in one of its passes."""
        return any(len(ids) <= 1 for ids in self._passes)

    @property
    def summed(self) -> bool:
        """Whether gradients were added up over the ranks."""
        return self._model.summed_buckets > self._buckets_before

    def check_done(self) -> None:
        """Whether the script did what a step needs.

        Raises:
            InputError: it did not.
        """
        if not self.synced:
            raise InputError(
                f"step {self.number} ended without step.backward(loss) in its last pass.",
                "Iterate over the whole step ('for batch in step:') and call step.backward(loss) for every batch.",
            )
        if not self.summed:
            raise InputError(
                f"the gradients of step {self.number} were not added up over the ranks: its loss does not come "
                "from run.model(...).",
                "Call run.model(...) in place of the model itself: each rank would train a model of its own.",
            )

    def _start(self) -> None:
        try:
            self._model.sync_buffers()
        except LostRankError as error:
            self._model.lost = error
