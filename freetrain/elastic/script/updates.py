"""The step under way, from its first batch to the first one after an optimizer's step, and its updates."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import torch

from freetrain.elastic.data.batching import StepBatches
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.adascale import AdaScale
from freetrain.elastic.script.gradients import Gradients, parameters_of, weighted
from freetrain.elastic.script.hooks import StepResult
from freetrain.elastic.script.local_steps import Rounds
from freetrain.elastic.script.sharding import weigh_shards
from freetrain.elastic.training.state import Beside, TrainingState
from freetrain.elastic.training.training import ElasticTraining
from freetrain.elastic.worlds.exchange import broadcast_tensors
from freetrain.errors import InputError

# How torch's schedules mark the step function of their optimizer, in newer and in older versions.
_SCHEDULED = ("_wrapped_by_lr_sched", "_with_counter")
# Far enough for a schedule within a wrapper, and an end where objects refer to each other in a circle.
_DEPTH = 4
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of ``optimizer.step()`` as torch gives them to hooks: the optimizer comes first."""


class Updates:
    """The step under way, with its updates: of each optimizer one, or several, or one after several batches.

    Before an optimizer steps its gradients are added up over the ranks. If a rank is lost, the script goes on to
    the end of its step, in which the optimizers do nothing any more, and then makes the step again. Updates that
    were made before the loss are not made again: they do nothing then, and what the script does to its schedules
    and the like up to the first that counts is undone there.

    Args:
        rounds: of steps that each rank makes by itself; None: gradients are added up for each step.
        share_buffers: give all ranks rank 0's buffers (running means and the like) with each step's first update.
    """

    def __init__(
        self,
        state: TrainingState,
        training: ElasticTraining,
        drawing: StepBatches,
        rounds: Rounds | None = None,
        scaling: AdaScale | None = None,
        *,
        share_buffers: bool = True,
        on_step: Callable[[StepResult], object] | None = None,
    ) -> None:
        self.lost: BaseException | None = None  # why the step under way does not count
        self.count = 0  # of the updates that the script has asked for in this step
        self.exposed_s = 0.0  # spent waiting for the other ranks in this step
        self.loss_share = math.nan  # this rank's part of the mean loss, where it is known
        self._state = state
        self._optimizers = state.optimizers
        self._training = training
        self._drawing = drawing
        self._rounds = rounds
        self._scaling = scaling
        self._share_buffers = share_buffers
        self._on_step = on_step
        self._schedules = [Schedules(optimizer, state.also) for optimizer in state.optimizers]
        self._lacks_samples = False
        self._weight: float | None = None
        self._summed: set[torch.optim.Optimizer] = set()
        self._void: set[torch.optim.Optimizer] = set()
        self._aside: dict[torch.Tensor, torch.Tensor] = {}
        self._before: Beside
        self._made_already: Beside | None = None
        self._begun: torch.optim.Optimizer | None = None
        self._adds_up_shards = weigh_shards(state.module, lambda: self._weight)
        self._gradients: dict[torch.optim.Optimizer, Gradients] = {}
        for optimizer in state.optimizers:
            self._gradients[optimizer] = Gradients(
                optimizer,
                training,
                drawing,
                self._buffers,
                adds_up_shards=self._adds_up_shards,
                scaling=scaling if scaling is not None and scaling.follows(optimizer) else None,
            )
            optimizer.register_step_pre_hook(self._before_update)

    def _buffers(self) -> Iterable[torch.Tensor]:
        """Buffers that all ranks are to have alike after this update."""
        return self._state.module.buffers() if self._share_buffers and not self._state.updates else ()

    # -- worlds

    def leave_world(self) -> None:
        """Add gradients up no more before the next world."""
        for gradients in self._gradients.values():
            gradients.forget_world()
        self.end_step()
        if self._rounds is not None:
            self._rounds.take_back()

    # -- steps

    @property
    def is_under_way(self) -> bool:
        """Whether the script has taken a batch of a step that is not concluded."""
        return bool(self._drawing.taken)

    @property
    def is_complete(self) -> bool:
        """Whether the script's next batch belongs to the next step."""
        return self.count >= (self._rounds.steps if self._rounds is not None else 1)

    def check_schedules(self) -> None:
        """Raises InputError if learning rate schedules are not carried along."""
        for schedule in self._schedules:
            schedule.check()

    def next_batch(self) -> tuple[int, Any] | None:
        """This rank's part of one batch more for the step, and its number; None at the end of the epoch."""
        begins = not self.is_under_way
        drawn = self._drawing.next(self._training.world)
        if drawn is None and not self.count:
            # Batches at the end of an epoch after which no optimizer stepped take no part.
            if self.is_under_way and self._state.sampler.position == 0:
                raise InputError(
                    "an epoch ended without a step of the optimizer that elastic.Loop was given.",
                    "Give it the optimizers that the script steps, and step them within each epoch.",
                )
            if self.is_under_way:
                self._state.clear_gradients()
            self.forget()
        if drawn is None:
            return None
        draw, batch = drawn
        if begins:
            self.begin_step()
        self.weigh(draw.weight)
        return self._drawing.number, batch

    def conclude(self) -> bool:
        """True if the next step takes place in the same world, or none follows."""
        training = self._training
        self._finish_round()
        if self.lost is not None:
            self.take_back()
            training.lose_step(self.lost)
            self.forget()
            if self._state.updates:  # which newcomers have made, too
                training.worlds.feeder.after_step()
            return False
        samples, wait_s, exposed_s = self._drawing.samples, self._drawing.wait_s, self.exposed_s
        batches, epoch = list(self._drawing.taken), self._state.sampler.epoch
        self.check_schedules()
        self._state.note_step(samples, len(batches))
        self.forget()
        verdict = training.conclude()
        if self._on_step is not None:
            world = training.world
            ids = [id_ for draw in batches for id_ in draw.ids]
            mine = [id_ for draw in batches for id_ in draw.mine]
            self._on_step(StepResult(self._state.step, epoch, ids, mine, verdict.loss, world.size, world.rank))
        training.record(samples, wait_s, exposed_s)
        training.worlds.feeder.after_step()
        return not verdict.change

    def forget(self) -> None:
        """No step is under way."""
        self.end_step()
        self._drawing.forget_step()

    def begin_step(self) -> None:
        """The script begins a step."""
        self.end_step()
        self._made_already = self._beside_the_model() if self._state.updates else None
        self.exposed_s = 0.0
        if self._rounds is not None:
            self._rounds.begin()

    def _finish_round(self) -> None:
        """Meet the other ranks, where they have not met in each update."""
        if self._rounds is not None and self.lost is None:
            with self._waiting_for_others():
                self._training.agree(self._training.ask("meeting after local steps", has_same_parameters=False))
                self._rounds.finish(self._drawing.share, self._training.world)
                broadcast_tensors(self._buffers(), 0, self._training.world)

    def end_step(self) -> None:
        """Leave optimizers alone until the next step begins."""
        self.lost = None
        self.count = 0
        self._begun = None
        self._weight = None
        self._lacks_samples = False
        self._summed.clear()
        self._void.clear()
        self._aside = {}

    def weigh(self, weight: float) -> None:
        """Gradients of the batch that comes now count so much: this rank's share of its samples."""
        if self._rounds is not None:
            self._lacks_samples |= weight == 0.0
        elif self._weight is not None and weight != self._weight:
            self._put_aside(self._weight)
        self._weight = weight

    def lose(self, error: BaseException) -> None:
        """The step does not count any more."""
        if self.lost is None:
            self.lost = error
            self._before = self._made_already or self._beside_the_model()

    def take_back(self) -> None:
        """Undo what the script has done to its schedules and the like since the step was lost."""
        self._before.put_back()
        if self._rounds is not None:
            self._rounds.take_back()

    def _beside_the_model(self) -> Beside:
        """Schedules and the like, and learning rates."""
        return Beside((), self._optimizers, self._state.also.values())

    # -- updates

    def sum_before_unscaling(self, scaler: torch.amp.GradScaler) -> None:
        """Let this scaler look for infinite gradients in the sums: all ranks then leave out the same updates."""
        unscale = scaler.unscale_

        def unscale_sums(optimizer: torch.optim.Optimizer) -> None:
            self.sum_if_due(optimizer)
            unscale(optimizer)

        scaler.unscale_ = unscale_sums  # type: ignore[method-assign]

    def sum_if_due(self, optimizer: torch.optim.Optimizer) -> None:
        """Add up this optimizer's gradients, if they are a step's and have not been added up."""
        if self._weight is not None and optimizer in self._optimizers and optimizer not in self._summed:
            self.sum(optimizer)

    def sum(self, optimizer: torch.optim.Optimizer) -> None:
        """Add up the gradients with which this optimizer is about to step; raises InputError before a batch."""
        if self._weight is None:
            raise InputError(
                "run.sync() was called before the first batch of a step.",
                "Call it between loss.backward() and optimizer.step(), in the loop over run.batches.",
            )
        if self._rounds is not None:
            return
        self.count += 1
        self._summed.add(optimizer)
        # Updates that were made before a loss are not made again.
        if self.lost is None and self.count > self._state.updates:
            if self._made_already is not None:
                self._made_already.put_back()
                self._made_already = None
            with self._waiting_for_others():
                if self._begun is not optimizer:
                    self._begin(optimizer)
                self._gradients[optimizer].finish()
                self._scale(optimizer)
                # Last: an update whose sums did not come is made again.
                self._state.updates = self.count
            self._begun = None
            if self.lost is None:
                return
        self._void.add(optimizer)

    @contextlib.contextmanager
    def _waiting_for_others(self) -> Iterator[None]:
        """Count the time in here as waiting; a rank that is lost meanwhile makes the step void."""
        begun_s = time.perf_counter()
        try:
            yield
        except LostRankError as error:
            self.lose(error)
        self.exposed_s += time.perf_counter() - begun_s

    def begin_backward(self) -> None:
        """The backward pass that comes is the last one before the optimizer's step: sum gradients meanwhile."""
        # Of several optimizers all are summed afterwards: their gradients come in any order.
        optimizer, *others = self._optimizers
        if others or self._rounds is not None or self.lost is not None or self.count < self._state.updates:
            return
        try:
            self._begin(optimizer, during_backward=True)
        except LostRankError as error:
            self.lose(error)

    def _begin(self, optimizer: torch.optim.Optimizer, *, during_backward: bool = False) -> None:
        weight, gradients = cast(float, self._weight), self._gradients[optimizer]
        gradients.begin(weight, self.loss_share, self._aside, during_backward=during_backward)
        self._begun = optimizer

    def _scale(self, optimizer: torch.optim.Optimizer) -> None:
        """Let learning rates follow the size of the step; raises LostRankError if a rank was lost meanwhile."""
        scaling, world = self._scaling, self._training.world
        if scaling is None or not scaling.follows(optimizer):
            return
        samples, share = self._drawing.samples, self._drawing.share
        # The gradients are weighted by the rank's share of the samples already.
        local = float(self._gradients[optimizer].measured) / share if share else 0.0
        (local,) = world.sum([local])
        # Of fewer samples than ranks some ranks have none.
        scaling.observe(local, samples, min(world.size, samples))

    def _before_update(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments | None:
        """The hook that torch calls before each step of an optimizer; perhaps other arguments for that."""
        if self._weight is None:
            return None
        arguments = call_first(optimizer, args, kwargs)
        if self._rounds is not None:
            # A step without sums: gradients of a lost step, or of samples that another rank counts, are void.
            self.count += 1
            is_void = self.lost is not None or self._lacks_samples
            self._lacks_samples = False
        else:
            if optimizer not in self._summed:
                self.sum(optimizer)
            self._summed.discard(optimizer)
            is_void = optimizer in self._void
            self._void.discard(optimizer)
        if is_void:
            # Optimizers leave parameters without gradient alone.
            optimizer.zero_grad(set_to_none=True)
        return arguments

    def _put_aside(self, weight: float) -> None:
        """Keep the gradients that batches of another weight have left."""
        with torch.no_grad():
            for parameter in dict.fromkeys(itertools.chain(*map(parameters_of, self._optimizers))):
                if parameter.grad is not None:
                    mine = weighted(parameter, weight, self._adds_up_shards)
                    before = self._aside.get(parameter)
                    self._aside[parameter] = mine if before is None else mine.add_(before)
                    parameter.grad = None


class Schedules:
    """The schedules of an optimizer's learning rates, of which the script may make some at any time."""

    def __init__(self, optimizer: torch.optim.Optimizer, also: Mapping[str, Any]) -> None:
        self._optimizer = optimizer
        self._also = also
        self._is_carried = False

    def check(self) -> None:
        """Whether one of them is carried along, if there are any; raises InputError if there are, but none is."""
        if self._is_carried or not any(hasattr(self._optimizer.step, mark) for mark in _SCHEDULED):
            return
        self._is_carried = _mentions(self._also, self._optimizer, _DEPTH)
        if not self._is_carried:
            raise InputError(
                "the optimizer has a learning rate schedule that is not in also={...}: newcomers and resumed "
                "trainings would begin it again from its start.",
                'Say also={"schedule": schedule}, or run.carry(schedule=schedule) before the first step.',
            )


def _mentions(item: Any, optimizer: torch.optim.Optimizer, depth: int) -> bool:
    """Whether the item is a schedule of this optimizer, or contains one."""
    if getattr(item, "optimizer", None) is optimizer:
        return True
    if depth == 0:
        return False
    if isinstance(item, Mapping):
        parts = list(item.values())
    elif isinstance(item, list | tuple):
        parts = list(item)
    else:
        parts = list(getattr(item, "__dict__", {}).values())
    return any(_mentions(part, optimizer, depth - 1) for part in parts)


def call_first(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments | None:
    """Call the closure, if there is one; the arguments by which the optimizer then hears of its loss alone."""
    closure: Callable[[], Any] | None = args[1] if len(args) > 1 else kwargs.get("closure")
    if closure is None:
        return None
    # Torch's own optimizers call it once and before all else, but for LBFGS.
    by_torch = type(optimizer).step.__module__.startswith("torch.optim.")
    if not by_torch or isinstance(optimizer, torch.optim.LBFGS):
        raise InputError(
            f"{type(optimizer).__name__}.step() was called with a closure, whose gradients cannot be added up "
            "over the ranks: this optimizer may call it several times, or not at once.",
            "Compute loss and gradients before it and call it without a closure, or take another optimizer.",
        )
    with torch.enable_grad():
        loss = closure()
    rest = {name: value for name, value in kwargs.items() if name != "closure"}
    return (args[0],), {**rest, "closure": lambda: loss}
