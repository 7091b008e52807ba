"""The training script's side of an elastic training."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from freetrain.elastic.batching import FixedBatch, ScaledBatch, passes_of, share_of
from freetrain.elastic.device import backend_for
from freetrain.elastic.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.errors import CheckpointError, Departed, LostRankError, as_exit
from freetrain.elastic.hooks import Resize, StepResult
from freetrain.elastic.loading import Loader
from freetrain.elastic.model import ElasticModel
from freetrain.elastic.records import Records
from freetrain.elastic.sampler import Sampler
from freetrain.elastic.session import Session
from freetrain.elastic.state import (
    Stateful,
    TrainingState,
    broadcast_state,
    fingerprint,
    part_random_streams,
)
from freetrain.elastic.step import Step
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.world import World
from freetrain.errors import FreetrainError, InputError, StateError

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
        self.state = TrainingState(model, optimizer, Sampler(samples, epochs, seed, shuffle=shuffle), also or {})
        self._loader = Loader(data, data_threads)
        self._on_resize = on_resize
        self._before_update = before_update
        self._on_step = on_step
        self._checkpoint_every_s = checkpoint_every_s
        self._keep_checkpoints = keep_checkpoints
        self._progress_every_s = progress_every_s
        self._trainer = trainer or trainer_from_environment()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._has_state = False
        self._wants_checkpoint = False
        self._old_world = 0
        self._unsaved = False
        self._broke_with: BaseException | None = None
        self._session: Session
        self._world: World
        self._records: Records

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

    def steps(self) -> Iterator[Step]:
        """The training's steps, until all epochs are through.

        If this worker has to leave before, the process ends here with status 0: what follows the loop is for those
        who see the training through.
        """
        try:
            self._enter_world()
            while not self.state.sampler.finished:
                step = self._next_step()
                self._records.resume()
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
        self.model.leave()
        try:
            if error is None and self._unsaved:
                self._records.finish()
        except StateError as still:
            raise as_exit(still) from None
        finally:
            self._session.say_goodbye(reason)
            if self._temporary is not None:
                self._temporary.cleanup()

    def _join(self) -> None:
        if self._trainer is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="freetrain-")
            self._trainer = Path(self._temporary.name)
        directory = TrainerDirectory.open(self._trainer)
        module = self.model.module
        mark = fingerprint(module, self.state.sampler.samples, self.batch, self.state.sampler.shuffle)
        self._records = Records(
            directory,
            self.state,
            progress_every_s=self._progress_every_s,
            checkpoint_every_s=self._checkpoint_every_s,
            keep_checkpoints=self._keep_checkpoints,
        )
        self._session = Session(directory, Timeouts.from_environment(), backend_for(module), mark)
        self._session.join()

    # -- worlds

    def _enter_world(self) -> None:
        """Form worlds until one holds, and bring all its members to the same state."""
        while True:
            self.model.leave()
            # The gradients are views into the old wrapper's buckets.
            self.state.optimizer.zero_grad(set_to_none=True)
            self._world = self._session.reform(self._broke_with, self.state.step)
            self._broke_with = None
            try:
                self._share_state()
                self.model.enter(self._world)
            except LostRankError as error:
                log.info("generation %d lost a rank at once: %s", self._world.generation.number, error)
                self._broke_with = error
                continue
            self._tell_resize()
            self._records.enter(self._world, self._session.nodes)
            return

    def _share_state(self) -> None:
        """All go on from the one that is furthest, or from the last checkpoint if nobody remembers anything."""
        rows = self._world.gather([int(self._has_state), self.state.step])
        furthest = max(rows)
        source = rows.index(furthest)
        if furthest[0] == 0 and self._world.rank == 0:
            self._session.wait_for_leavers()
            self._records.load()
        if any(row != furthest for row in rows) or furthest[0] == 0:
            broadcast_state(self.state, source, self._world)
            if self._world.rank != source:
                part_random_streams(self._world.rank)
        self._has_state = True

    def _tell_resize(self) -> None:
        old, new = self._old_world, self._world.size
        self._old_world = new
        if self._on_resize is not None:
            before = self.batch.per_step(old) if old else 0
            self._on_resize(Resize(old, new, before, self.batch.per_step(new)))

    # -- steps

    def _next_step(self) -> Step:
        sampler, per_step = self.state.sampler, self.batch.per_step(self._world.size)
        ids = sampler.peek(per_step)
        passes = self._passes(ids)
        self._loader.prepare([*passes, *self._passes(sampler.peek(per_step, skip=per_step))])
        return Step(self.state.step + 1, sampler.epoch, ids, passes, self.model, self._loader.get)

    def _passes(self, ids: Sequence[int]) -> list[Sequence[int]]:
        """This rank's part of a step, pass by pass."""
        return passes_of(share_of(ids, self._world.rank, self._world.size), self.batch.at_most_per_pass)

    def _complete(self, step: Step) -> bool:
        """Apply the step; True if the next one takes place in the same world."""
        if self.model.lost is not None:
            self._broke_with = self.model.lost
            self._records.pause()
            return False
        if not step.synced:
            raise InputError(
                f"step {step.number} ended without step.backward(loss) in its last pass.",
                "Iterate over the whole step ('for batch in step:') and call step.backward(loss) for every batch.",
            )
        if self._before_update is not None:
            self._before_update(self.model.module)
        loss, change = self._update(step)
        if change:
            self._records.pause()
        self._report(step, loss)
        return not change

    def _update(self, step: Step) -> tuple[float, bool]:
        """Step the optimizer while all ranks agree on what comes next: (loss, whether another world follows)."""
        agreement = None
        try:
            agreement = self._world.start_sum([float(self._session.change_due), step.loss_share])
        except LostRankError as error:
            self._broke_with = error
        self.state.optimizer.step()
        self.state.optimizer.zero_grad(set_to_none=False)
        self.state.step = step.number
        self.state.samples_done += len(step.ids)
        self.state.sampler.advance(len(step.ids))
        if agreement is None:
            return float("nan"), True
        try:
            changes, loss = agreement.wait()
        except LostRankError as error:
            self._broke_with = error
            return float("nan"), True
        return loss, changes > 0

    def _report(self, step: Step, loss: float) -> None:
        world = self._world
        if self._on_step is not None:
            self._on_step(StepResult(step.number, step.epoch, step.ids, step.my_ids, loss, world.size, world.rank))
        wants_checkpoint, self._wants_checkpoint = self._wants_checkpoint, False
        if world.rank == 0:
            self._records.add(step, wants_checkpoint=wants_checkpoint)

    # -- ends

    def _finish(self) -> None:
        """All epochs are through. What follows the loop runs in any case: there the script may save its model."""
        if self._world.rank == 0:
            try:
                self._records.finish()
            except StateError as error:
                log.warning("%s It is tried once more when the script ends.", error.what)
                self._unsaved = True

    def _depart(self, departed: Departed) -> None:
        """Say goodbye; the last of a world that nobody continues writes the checkpoint."""
        view, me = self._session.view, self._session.member.id
        world = getattr(self, "_world", None)
        if world is not None and self._has_state and departed.code == 0:
            old = [id_ for id_ in world.generation.members if id_ not in view.gone]
            if not set(old) & set(view.ranks) and old[:1] == [me]:
                self._save_at_last(departed)
        log.info("%s", departed.reason)
        self._session.say_goodbye(departed.reason)

    def _save_at_last(self, departed: Departed) -> None:
        """A checkpoint that nobody will write if this rank does not; without it, the status says so."""
        try:
            self._records.save()
        except CheckpointError as error:
            self._session.say_goodbye(departed.reason)
            raise as_exit(error) from None
