"""The script's own optimizers: before one of them steps, its gradients are added up over the ranks."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.closures import Arguments, call_first
from freetrain.elastic.script.local_steps import Rounds
from freetrain.elastic.script.sharding import weigh_shards
from freetrain.elastic.training.buckets import Buckets
from freetrain.elastic.training.shards import is_sharded, local
from freetrain.elastic.training.state import TrainingState, hyperparameters, set_hyperparameters
from freetrain.elastic.worlds.exchange import add_up_tensors
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


class Updates:
    """The updates of the step under way: of each optimizer one, or several, or one after several batches.

    If a rank is lost, the script goes on to the end of its step, in which the optimizers do nothing any more, and
    then makes the step again. Updates that were made before the loss are not made again: they do nothing then, and
    what the script does to its schedules and the like up to the first that counts is undone there.

    Args:
        state: of the training.
        optimizers: that the script steps.
        vote: begins the agreement on what comes after the step; raises LostRankError.
        rounds: of steps that each rank makes by itself; None: gradients are added up for each step.

    Attributes:
        lost: why the step under way does not count; None if it does.
        count: of the updates that the script has asked for in this step.
        exposed_s: seconds spent waiting for the other ranks in this step.
        wrapped_in: 0, since nothing is wrapped.
        buckets: None, likewise.
    """

    wrapped_in = 0
    buckets = None

    def __init__(
        self,
        state: TrainingState,
        optimizers: Sequence[torch.optim.Optimizer],
        vote: Callable[[], None],
        rounds: Rounds | None = None,
    ) -> None:
        self.lost: BaseException | None = None
        self.count = 0
        self.exposed_s = 0.0
        self._state = state
        self._optimizers = optimizers
        self._rounds = rounds
        self._vote = vote
        self._has_voted = False
        self._lacks_samples = False
        self._world: World | None = None
        self._weight: float | None = None
        self._summed: set[torch.optim.Optimizer] = set()
        self._void: set[torch.optim.Optimizer] = set()
        self._aside: dict[torch.Tensor, torch.Tensor] = {}
        self._before: dict[str, Any] = {}
        self._made_already: dict[str, Any] | None = None
        self._adds_up_shards = weigh_shards(state.module, lambda: self._weight)
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._before_update)

    # -- worlds

    def enter(self, world: World) -> None:
        """From now on gradients are added up in this world."""
        self._world = world

    def unwrap(self) -> None:
        """There is no wrapper."""

    def prepare(self, buckets: Buckets) -> None:
        """Nothing is wrapped anywhere."""

    def leave(self) -> None:
        """The world is about to end."""
        self._world = None
        self.end_step()
        if self._rounds is not None:
            self._rounds.take_back()

    # -- steps

    @property
    def is_complete(self) -> bool:
        """Whether the script's next batch belongs to the next step."""
        return self.count >= (self._rounds.steps if self._rounds is not None else 1)

    def begin_step(self) -> None:
        """The script begins a step."""
        self.end_step()
        self._made_already = self._beside_the_model() if self._state.updates else None
        self.exposed_s = 0.0
        if self._rounds is not None:
            self._rounds.begin()

    def finish_round(self, share: float) -> None:
        """Meet the other ranks, where they have not met in each update; this one had this share of the samples."""
        if self._rounds is not None and self.lost is None:
            begun_s = time.perf_counter()
            try:
                self._rounds.finish(share, cast(World, self._world))
            except LostRankError as error:
                self.lose(error)
            self.exposed_s += time.perf_counter() - begun_s

    def end_step(self) -> None:
        """What optimizers do until the next step begins is the script's own affair."""
        self.lost = None
        self.count = 0
        self._has_voted = False
        self._weight = None
        self._lacks_samples = False
        self._summed.clear()
        self._void.clear()
        self._aside.clear()

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
        self._set_beside_the_model(self._before)
        if self._rounds is not None:
            self._rounds.take_back()

    def _beside_the_model(self) -> dict[str, Any]:
        """A copy of what scripts change besides parameters: schedules and the like, and learning rates."""
        also = {name: item.state_dict() for name, item in self._state.also.items()}
        return copy.deepcopy({"also": also, "groups": hyperparameters(self._state.optimizer)})

    def _set_beside_the_model(self, captured: dict[str, Any]) -> None:
        for name, item in self._state.also.items():
            item.load_state_dict(captured["also"][name])
        set_hyperparameters(self._state.optimizer, captured["groups"])

    # -- updates

    def sum_before_unscaling(self, scaler: torch.amp.GradScaler) -> None:
        """Let this scaler look for infinite gradients in the sums: all ranks then leave out the same updates."""
        unscale = scaler.unscale_

        def unscale_sums(optimizer: torch.optim.Optimizer) -> None:
            if self._weight is not None and optimizer in self._optimizers and optimizer not in self._summed:
                self.sum(optimizer)
            unscale(optimizer)

        scaler.unscale_ = unscale_sums  # type: ignore[method-assign]

    def sum(self, optimizer: torch.optim.Optimizer) -> None:
        """Add up the gradients with which this optimizer is about to step.

        Raises:
            InputError: no batch has been taken.
        """
        if self._weight is None:
            raise InputError(
                "run.sync() was called before the first batch of a step.",
                "Call it between loss.backward() and optimizer.step(), in the loop over run.batches.",
            )
        if self._rounds is not None:
            return
        self.count += 1
        self._summed.add(optimizer)
        if self.lost is None and self.count > self._state.updates:
            if self._made_already is not None:
                self._set_beside_the_model(self._made_already)
                self._made_already = None
            begun_s = time.perf_counter()
            try:
                self._add_up(list(parameters_of(optimizer)), self._weight)
                self._state.updates = self.count
            except LostRankError as error:
                self.lose(error)
            self.exposed_s += time.perf_counter() - begun_s
            if self.lost is None:
                return
        self._void.add(optimizer)

    def _before_update(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments | None:
        """What torch calls before each step of an optimizer, and perhaps other arguments for that."""
        if self._weight is None:
            return None
        arguments = call_first(optimizer, args, kwargs)
        self._prepare_gradients(optimizer)
        return arguments

    def _prepare_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        if self._rounds is not None:
            self._step_alone(optimizer)
            return
        if optimizer not in self._summed:
            self.sum(optimizer)
        self._summed.discard(optimizer)
        if optimizer in self._void:
            self._void.discard(optimizer)
            # Optimizers leave parameters without gradient alone.
            optimizer.zero_grad(set_to_none=True)

    def _step_alone(self, optimizer: torch.optim.Optimizer) -> None:
        """Not in vain, nor with a sample that another rank counts."""
        self.count += 1
        if self.lost is not None or self._lacks_samples:
            optimizer.zero_grad(set_to_none=True)
        self._lacks_samples = False

    def _add_up(self, parameters: list[torch.Tensor], weight: float) -> None:
        """A parameter that no rank has a gradient for gets none."""
        world = cast(World, self._world)
        if not self._has_voted:
            self._has_voted = True
            self._vote()
        flags = [float(each.grad is not None or each in self._aside) for each in parameters]
        present = world.start_sum(flags)
        with torch.no_grad():
            for parameter in parameters:
                parameter.grad = self._weighted(parameter, weight)
        gradients = [cast(torch.Tensor, each.grad) for each in parameters]
        add_up_tensors([each for each in gradients if not is_sharded(each)], world)
        add_up_tensors([local(each) for each in gradients if is_sharded(each)], world.peers)
        for parameter, count in zip(parameters, present.wait(), strict=True):
            if not count:
                parameter.grad = None

    def _weighted(self, parameter: torch.Tensor, weight: float) -> torch.Tensor:
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(parameter)
        elif gradient.layout is not torch.strided:
            raise InputError("some gradients are sparse, which cannot be added up.", "Use sparse=False.")
        elif is_sharded(gradient) and self._adds_up_shards:
            pass  # each rank's part was weighted before the node's were added up
        elif weight == 0.0:
            gradient.zero_()  # a repeated sample's may be infinite
        else:
            gradient.mul_(weight)
        before = self._aside.pop(parameter, None)
        return gradient if before is None else gradient.add_(before)

    def _put_aside(self, weight: float) -> None:
        """What batches of another weight have left."""
        with torch.no_grad():
            for parameter in dict.fromkeys(each for one in self._optimizers for each in parameters_of(one)):
                if parameter.grad is not None:
                    self._aside[parameter] = self._weighted(parameter, weight)
                    parameter.grad = None


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    """What it may change, each once."""
    every = (each for group in optimizer.param_groups for each in group["params"])
    return dict.fromkeys(each for each in every if each.requires_grad)
