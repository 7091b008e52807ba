"""The training script's side of an elastic training."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from freetrain.elastic.agreement import Ballot, Verdict
from freetrain.elastic.batching import FixedBatch, ScaledBatch
from freetrain.elastic.device import backend_for
from freetrain.elastic.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.errors import CheckpointError, Departed, LostRankError, as_exit
from freetrain.elastic.feeding.fitness import wants_to_be_fed
from freetrain.elastic.hooks import Hooks, Resize, StepResult
from freetrain.elastic.loading import Loader
from freetrain.elastic.mistakes import Samples, Schedules, check_difference, check_step, learning_rates
from freetrain.elastic.model import ElasticModel
from freetrain.elastic.records import Records
from freetrain.elastic.sampler import Sampler
from freetrain.elastic.session import Session
from freetrain.elastic.state import Stateful, TrainingState, fingerprint
from freetrain.elastic.step import Step
from freetrain.elastic.steps import Steps
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.world import World
from freetrain.elastic.worlds import Worlds
from freetrain.errors import FreetrainError, InputError

log = logging.getLogger(__name__)


class Run:
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
        progress_every_s: seconds between two lines of progress.
        trainer: the trainer's directory; the agent's by default, a temporary one without agent.
        ddp_options: for ``DistributedDataParallel``.
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
        progress_every_s: float = 5.0,
        trainer: Path | None = None,
        ddp_options: Mapping[str, Any] | None = None,
    ) -> None:
        samples = data if isinstance(data, int) else len(data)
        if samples < 1:
            raise InputError("the data set is empty: there is nothing to train on.")
        self.model = ElasticModel(model, **(ddp_options or {}))
        self.batch = batch
        sampler = Sampler(samples, epochs, seed, shuffle=shuffle, drop_last=drop_last)
        self.state = TrainingState(model, optimizer, sampler, also or {})
        self._loader = Loader(data, data_threads)
        self._samples = Samples(model)
        self._schedules = Schedules(optimizer, self.state.also)
        self._steps = Steps(self.state, batch, self.model, self._loader)
        self._hooks = Hooks(batch, on_resize, before_update, on_step)
        self._records_of = partial(
            Records,
            state=self.state,
            progress_every_s=progress_every_s,
            checkpoint_every_s=checkpoint_every_s,
            keep_checkpoints=keep_checkpoints,
        )
        self._trainer = trainer or trainer_from_environment()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._wants_checkpoint = False
        self._wants_stop = False
        self._ended = False
        self._broke_with: BaseException | None = None
        self._session: Session
        self._world: World
        self._records: Records
        self._worlds: Worlds

    # -- what scripts ask

    @property
    def rank(self) -> int:
        """This process's rank in the present world."""
        return self._world.rank

    @property
    def world_size(self) -> int:
        """Ranks in the present world."""
        return self._world.size

    @property
    def step(self) -> int:
        """Steps completed."""
        return self.state.step

    def checkpoint(self) -> None:
        """Write a checkpoint at the end of this step."""
        self._wants_checkpoint = True

    def stop(self) -> None:
        """End the training on all ranks at the end of this step; called in ``on_step``, of the one that follows.

        It is then complete, as after its last epoch. One rank's word is enough.
        """
        self._wants_stop = True

    def steps(self) -> Iterator[Step]:
        """The training's steps, until all epochs are through or the script stops it.

        If this worker has to leave before, or joined when all was done, the process ends here with status 0: what
        follows the loop is for those who see the training through.
        """
        try:
            self._enter_world()
            while not self._worlds.over and (step := self._steps.next(self._world)) is not None:
                yield step
                if not self._complete(step):
                    self._enter_world()
            self._finish()
        except FreetrainError as error:
            raise as_exit(error) from None
        except Departed as departed:
            self._depart(departed)
            raise

    # -- context

    def __enter__(self) -> Self:
        """Join the trainer."""
        try:
            self._join()
        except FreetrainError as error:
            raise as_exit(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the trainer."""
        reason = "finished" if error is None else f"ended with {kind.__name__ if kind else 'an error'}: {error}"
        self._loader.close()
        self._worlds.feeder.close()
        self.model.leave()
        try:
            if error is None:
                self._end_well()
            else:
                self._steps.explain(error)
        except FreetrainError as unfinished:
            raise as_exit(unfinished) from None
        finally:
            self._session.say_goodbye(reason)
            if self._temporary is not None:
                self._temporary.cleanup()

    def _join(self) -> None:
        if self._trainer is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="freetrain-")
            self._trainer = Path(self._temporary.name)
        self._schedules.check()
        directory = TrainerDirectory.open(self._trainer)
        module, sampler = self.model.module, self.state.sampler
        mark = fingerprint(module, sampler.samples, self.batch, sampler.shuffle, sampler.drop_last)
        self._records = self._records_of(directory)
        is_fed = wants_to_be_fed(self.state)
        self._session = Session(directory, Timeouts.from_environment(), backend_for(module), mark, is_fed=is_fed)
        self._worlds = Worlds(self.state, self.model, self._session, self._records)
        self._session.join()

    def _enter_world(self) -> None:
        broke_with, self._broke_with = self._broke_with, None
        self._world = self._worlds.enter(broke_with)
        self._hooks.resized(self._world.size)

    # -- steps

    def _complete(self, step: Step) -> bool:
        """Apply the step; True if the next one takes place in the same world, or none follows."""
        if self.model.lost is not None:
            self._broke_with = self.model.lost
            self._records.pause()
            return False
        check_step(step)
        self._hooks.updating(self.model.module)
        self._worlds.feeder.before_update()
        verdict = Verdict(change=True, stop=False, loss=float("nan"))
        try:
            verdict = self._steps.apply(step, self._world, self._ballot(step))
            check_difference(verdict.difference, step.number)
            if verdict.stop:
                self._worlds.stop(self._world)
        except LostRankError as error:
            self._broke_with = error
        self._worlds.step_done()
        stays = self._broke_with is None and (self._worlds.over or not verdict.change)
        if not stays:
            self._records.pause()
        self._report(step, verdict.loss)
        self._worlds.feeder.after_step()
        return stays

    def _ballot(self, step: Step) -> Ballot:
        optimizer = self.state.optimizer
        self._schedules.check()
        return Ballot(
            self._session.change_due,
            self._wants_stop,
            step.loss_share,
            learning_rates(optimizer),
            self._samples.at(step.number),
        )

    def _report(self, step: Step, loss: float) -> None:
        world = self._world
        self._hooks.completed(
            StepResult(step.number, step.epoch, step.ids, step.my_ids, loss, world.size, world.rank)
        )
        wants_checkpoint, self._wants_checkpoint = self._wants_checkpoint, False
        if world.rank == 0:
            self._records.add(step, wants_checkpoint=wants_checkpoint)

    # -- ends

    def _finish(self) -> None:
        """The training is over; what follows the loop is run by those who saw it through."""
        if self._world.rank != 0 and not self._worlds.sees_it_through:
            raise Departed("the training was complete before this worker's first step")
        self._ended = True
        if self._world.rank == 0:
            self._records.finish()

    def _end_well(self) -> None:
        """The script has ended: try once more what could not be written, and do not let a break pass in silence.

        Raises:
            StateError: it can still not be written.
            InputError: the script left its loop before the end.
        """
        self._records.finish_at_last()
        if self._worlds.has_state and not self._ended:
            if self._world.rank == 0:
                self._records.save()
            raise InputError(
                f"the script left the loop over run.steps() in step {self.state.step + 1}, which is lost; the "
                f"training is not complete.",
                "Call run.stop() in place of 'break': all workers then end at the end of that step.",
            )

    def _depart(self, departed: Departed) -> None:
        """Say goodbye; the last of a world that nobody continues writes the checkpoint."""
        world = getattr(self, "_world", None)
        if world is not None and self._worlds.has_state and departed.code == 0 and self._session.is_last_of(world):
            try:
                self._records.save()
            except CheckpointError as error:
                self._session.say_goodbye(departed.reason)
                raise as_exit(error) from None
        log.info("%s", departed.reason)
        self._session.say_goodbye(departed.reason)
