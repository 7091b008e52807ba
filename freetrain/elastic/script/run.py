"""The training script's side of an elastic training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from freetrain.elastic.data.batching import FixedBatch, ScaledBatch
from freetrain.elastic.data.loading import Loader
from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.adascale import AdaScale
from freetrain.elastic.script.hooks import Hooks, Resize, StepResult
from freetrain.elastic.script.in_training import InTraining
from freetrain.elastic.script.model import ElasticModel
from freetrain.elastic.script.sharding import check_unsharded
from freetrain.elastic.script.step import Step
from freetrain.elastic.script.steps import Steps
from freetrain.elastic.training.mistakes import Schedules
from freetrain.elastic.training.records import RecordOptions
from freetrain.elastic.training.state import Stateful, TrainingState
from freetrain.elastic.training.training import Training
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

_SCALING = "freetrain.scaling"
"""The name under which what learning rates follow is carried along."""


class Run(InTraining):
    """An elastic training; use it as a context, iterate over :meth:`steps`.

    Each step the runtime adds up the ranks' gradients, calls ``optimizer.step()`` and clears the gradients; the
    script only computes losses and calls ``step.backward(loss)``.

    Args:
        model: on its device already.
        optimizer: of its parameters.
        data: a data set with length and items, or the number of samples (steps then yield tensors of ids).
        batch: samples per step: :class:`FixedBatch` or :class:`ScaledBatch`.
        epochs: passes over the data.
        data_threads: that fetch the next step's data meanwhile; 0 fetches in the training's own thread.
        seed: of the order of the samples.
        shuffle: False keeps the data set's order.
        drop_last: leave out the last step of an epoch where too few samples are left for a whole one.
        also: more to carry along by name: anything with ``state_dict`` and ``load_state_dict``.
        on_resize: called in every new world before its first step.
        before_update: called with the model between backward and optimizer step: gradient clipping.
        on_step: called after every completed step: logging, learning rate schedules.
        checkpoint_every_s: seconds between two checkpoints.
        keep_checkpoints: how many of the newest to keep.
        background_checkpoints: rank 0 writes a copy of the state while the training goes on; False: all wait, and
            no memory is needed for a copy.
        progress_every_s: seconds between two lines of progress.
        trainer: the trainer's directory; the agent's by default, a temporary one without agent.
        ddp_options: for ``DistributedDataParallel``.
        scaling: lets learning rates follow steps that grow with the world: :class:`AdaScale`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: Any,
        batch: FixedBatch | ScaledBatch,
        *,
        epochs: int = 1,
        data_threads: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        also: Mapping[str, Stateful] | None = None,
        on_resize: Callable[[Resize], object] | None = None,
        before_update: Callable[[torch.nn.Module], object] | None = None,
        on_step: Callable[[StepResult], object] | None = None,
        checkpoint_every_s: float = 600.0,
        keep_checkpoints: int = 3,
        background_checkpoints: bool = True,
        progress_every_s: float = 5.0,
        trainer: Path | None = None,
        ddp_options: Mapping[str, Any] | None = None,
        scaling: AdaScale | None = None,
    ) -> None:
        check_unsharded()
        samples = data if isinstance(data, int) else len(data)
        if samples < 1:
            raise InputError("the data set is empty: there is nothing to train on.")
        self.model = ElasticModel(model, **(ddp_options or {}))
        self.batch = batch
        sampler = Sampler(samples, epochs, seed, shuffle=shuffle, drop_last=drop_last)
        carried = {} if scaling is None else {_SCALING: scaling}
        self.state = TrainingState(model, optimizer, sampler, {**carried, **(also or {})})
        records = RecordOptions(progress_every_s, checkpoint_every_s, keep_checkpoints, background_checkpoints)
        self._training = Training(self.state, self.model, batch, trainer=trainer, records=records)
        self._loader = Loader(data, data_threads)
        self._check_schedules = Schedules(optimizer, self.state.also).check
        self._steps = Steps(self.state, batch, self.model, self._loader, self._training.vote)
        self._hooks = Hooks(batch, on_resize, before_update, on_step)
        self._scaling = scaling
        self.model.measure = None if scaling is None else scaling.squared_norm

    # -- what scripts ask

    def steps(self) -> Iterator[Step]:
        """The training's steps, until all epochs are through or the script stops it.

        If this worker has to leave before, or joined when all was done, the process ends here with status 0: what
        follows the loop is for those who see the training through.
        """
        training = self._training
        with training.ending_the_process():
            self._enter_world()
            while (step := self._next()) is not None:
                yield step
                if not self._complete(step):
                    self._enter_world()
            training.finish()

    # -- context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the trainer."""
        self._loader.close()
        if error is not None:
            self._steps.explain(error)
        self._training.leave(error, "run.steps()")

    # -- steps

    def _enter_world(self) -> None:
        self._hooks.resized(self._training.enter_world().size)

    def _next(self) -> Step | None:
        """The next step; None when all ranks have come to the end."""
        training = self._training
        while training.over or (step := self._steps.next(training.world)) is None:
            if training.meets_all():
                return None
            self._enter_world()
        return step

    def _complete(self, step: Step) -> bool:
        """Apply the step; True if the next one takes place in the same world, or none follows."""
        training, world = self._training, self._training.world
        if self.model.lost is not None:
            training.lose_step(self.model.lost)
            return False
        step.check_done()
        try:
            self._scale(step, world)
        except LostRankError as error:
            training.lose_step(error)
            return False
        self._hooks.updating(self.model.module)
        self._check_schedules()
        self.state.complete_step(len(step.ids))
        verdict = training.conclude()
        self._hooks.completed(
            StepResult(step.number, step.epoch, step.ids, step.my_ids, verdict.loss, world.size, world.rank)
        )
        training.record(len(step.ids), step.wait_s, step.exposed_s)
        training.worlds.feeder.after_step()
        return not verdict.change

    def _scale(self, step: Step, world: World) -> None:
        """Let learning rates follow the size of the step; raises LostRankError if a rank was lost meanwhile."""
        if self._scaling is not None:
            weight = len(step.my_ids) / len(step.ids)
            # The gradients are weighted by the rank's share of the samples already.
            local = float(self.model.measured) / weight if weight else 0.0
            self.model.measured = torch.zeros(())
            (local,) = world.start_sum([local]).wait()
            self._scaling.observe(local, len(step.ids), min(world.size, len(step.ids)))
