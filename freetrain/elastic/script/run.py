"""An elastic training whose steps the runtime makes: a thin layer over :class:`Loop`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import torch

from freetrain.elastic.data.batching import Draw, FixedBatch, Sampler, ScaledBatch, StepBatches
from freetrain.elastic.data.drawing import DrawnPasses, Loader, Passes
from freetrain.elastic.data.orders import BatchOrder
from freetrain.elastic.script.loop import Loop
from freetrain.errors import InputError


class Run(Loop):
    """An elastic training; use it as a context, iterate over :meth:`steps`.

    Each step the runtime adds up the ranks' gradients, calls ``optimizer.step()`` and clears the gradients; the
    script only computes losses and calls ``step.backward(loss)``.

    Args:
        model: on its device already, or several of them.
        optimizer: of its parameters, or several, each of which steps in each step.
        data: a data set with length and items, or the number of samples (steps then yield tensors of ids).
        batch: samples per step: :class:`FixedBatch` or :class:`ScaledBatch`.
        data_threads: that fetch the next step's data meanwhile; 0 fetches in the training's own thread.
        before_update: called with the model between backward and optimizer step: gradient clipping.
        options: options of :class:`Loop`.
    """

    _name = "run.steps()"

    def __init__(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        data: Any,
        batch: FixedBatch | ScaledBatch,
        *,
        data_threads: int = 1,
        before_update: Callable[[torch.nn.Module], object] | None = None,
        **options: Any,
    ) -> None:
        self._loader = Loader(data, data_threads)
        self._at_most = batch.at_most_per_pass
        self._before_update = before_update
        self._latest: Step | None = None
        samples = data if isinstance(data, int) else len(data)
        super().__init__(model, optimizer, samples, dataclasses.replace(batch, at_most_per_pass=None), **options)

    def steps(self) -> Iterator[Step]:
        """The training's steps, until all epochs are through or the script stops it.

        If this worker has to leave before, or joined when all was done, the process ends here with status 0: what
        follows the loop is for those who see the training through.
        """
        for _ in self.epochs():
            for passes in self.batches:
                self._latest = step = Step(self, self._drawing.taken[-1], passes)
                yield step
                step.check_done()
                with self._training.ending_the_process():
                    if self._updates.lost is None:
                        self.sync()
                    if self._updates.lost is None and self._before_update is not None:
                        self._before_update(self.state.module)
                    for optimizer in self.state.optimizers:
                        optimizer.step()
                        optimizer.zero_grad(set_to_none=True)
                    self._conclude()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the trainer."""
        if isinstance(error, Exception) and self._latest is not None:
            self._latest.explain(error)
        super().__exit__(kind, error, trace)

    def _read(self, order: BatchOrder, data: Any, sampler: Sampler) -> StepBatches:
        return DrawnPasses(self._loader, sampler, order.batch, self._at_most)


class Step:
    """This rank's part of one step: iterate over its passes, call :meth:`backward` in each.

    If another rank vanishes meanwhile the iteration ends early without an error, the step does not count, and the
    runtime yields the same samples again in the world that remains.

    Args:
        passes: this rank's samples, pass by pass; a rank without samples has one empty pass.

    Attributes:
        number: from 1.
        epoch: from 0.
        ids: samples of the whole world.
        my_ids: of this rank.
    """

    def __init__(self, run: Run, draw: Draw, passes: Passes) -> None:
        self.number = run.step + 1
        self.epoch = run.state.sampler.epoch
        self.ids = list(draw.ids)
        self.my_ids = list(draw.mine)
        self._run = run
        self._passes = passes
        self._place = -1
        self._loss: float | torch.Tensor = 0.0
        self._is_done = False

    def __iter__(self) -> Iterator[Any]:
        """Data of each pass."""
        drawing = self._run._drawing
        for place, ids in enumerate(self._passes):
            self._place = place
            if self._run._updates.lost is not None:
                return
            asked_s = time.perf_counter()
            # All ranks take part in every step: who has no sample repeats one, which does not count.
            data = self._run._loader.get(ids or self.ids[:1])
            drawing.wait_s += time.perf_counter() - asked_s
            yield data

    def backward(self, loss: torch.Tensor) -> None:
        """Back-propagate the mean loss of the pass's samples, weighted by their share of the step.

        What the script's own functions and hooks raise in there is raised here.
        """
        updates = self._run._updates
        if updates.lost is not None:
            return
        ids = self._passes[self._place]
        self._loss = self._loss + loss.detach() * (len(ids) / len(self.ids))
        if self._place == len(self._passes) - 1 and not self._is_done:
            self._is_done = True
            # Sums of the backward pass are announced with it; once in a step, as float() waits for a GPU.
            updates.loss_share = float(self._loss)
            updates.begin_backward()
        share = len(ids) / len(self.my_ids) if self.my_ids else 1.0
        (loss * share).backward()  # type: ignore[no-untyped-call,unused-ignore]

    def check_done(self) -> None:
        """Whether the script did what a step needs; raises InputError if it did not."""
        if not self._is_done and self._run._updates.lost is None:
            raise InputError(
                f"step {self.number} ended without step.backward(loss) in its last pass.",
                "Iterate over the whole step ('for batch in step:') and call step.backward(loss) for every batch.",
            )

    def explain(self, error: Exception) -> None:
        """Add to an error of the script's what may be its reason: some layers cannot train on one sample."""
        has_lone_sample = any(len(ids) <= 1 for ids in self._passes)
        if has_lone_sample and len(self.ids) < self._run._drawing.batch.per_step(self._run._training.world.size):
            error.add_note(
                f"freetrain: step {self.number}, the last of its epoch, has only {len(self.ids)} samples, and "
                "this rank has one of them at a time. Some layers, BatchNorm for one, cannot train on that: "
                "elastic.Run(..., drop_last=True) leaves such steps out."
            )
