"""The gradients of one update, added up over the ranks: during the backward pass, or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from freetrain.elastic.data.batching import StepBatches
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.adascale import AdaScale
from freetrain.elastic.training.state import parameters_in
from freetrain.elastic.training.tensors import is_sharded, local
from freetrain.elastic.training.training import ElasticTraining
from freetrain.elastic.worlds.calls import PendingCalls, digest_of
from freetrain.elastic.worlds.exchange import (
    CHUNK_BYTES,
    add_up_tensors,
    bytes_of,
    flatten,
    packs_of,
    start_broadcast,
    unflatten,
)
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


@dataclass(slots=True)
class _Pack:
    """Gradients that travel together; large ones alone, in the memory that they have."""

    parameters: list[torch.Tensor]
    missing: set[int] = field(default_factory=set)
    gradients: list[torch.Tensor] = field(default_factory=list)
    flat: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    finish: Callable[[], None] | None = None


class Gradients:
    """Gradients of some parameters, from the ranks' own ones to their sums.

    All ranks sum the same packs in the same order: that of the parameters backwards, as a backward pass comes to
    them. The last pack is begun when the backward pass is over, and says besides whether some parameter has a
    gradient here that had none in the update before, or the reverse; only then do the ranks compare which.

    Args:
        drawing: the batches of the step, whose mark has to be the same on all ranks.
        buffers: of the model, which all ranks have as rank 0 has them after each update; empty: each has its own.
        adds_up_shards: whether the gradients of sharded parameters are weighted when the node adds them up.
        scaling: measures this rank's own gradients, before these are summed.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        training: ElasticTraining,
        drawing: StepBatches,
        buffers: Callable[[], Iterable[torch.Tensor]],
        *,
        adds_up_shards: bool,
        scaling: AdaScale | None,
    ) -> None:
        self.measured = torch.zeros(())  # the squared norm of this rank's gradients, where it is measured
        self._optimizer = optimizer
        self._training, self._drawing, self._buffers = training, drawing, buffers
        self._adds_up_shards = adds_up_shards
        self._scaling = scaling
        self._known: list[int] = []
        self._digest = 0
        self._trusted = -1
        self._packs: list[_Pack] = []
        self._pack_of: dict[torch.Tensor, _Pack] = {}
        self._hooked: set[torch.Tensor] = set()
        self._none_anywhere: frozenset[int] = frozenset()
        self._none_here: set[int] = set()
        self._world: World
        self._asked: PendingCalls
        self._weight = 0.0
        self._aside: Mapping[torch.Tensor, torch.Tensor] = {}
        self._begun = 0
        self._is_open = False
        self._broke_with: LostRankError | None = None

    def forget_world(self) -> None:
        """The ranks are others now, and nothing is known of them."""
        self._trusted = -1
        self._is_open = False
        for pack in self._packs:
            pack.gradients, pack.flat, pack.finish = [], torch.empty(0), None

    def begin(
        self, weight: float, loss_share: float, aside: dict[torch.Tensor, torch.Tensor], *, during_backward: bool
    ) -> None:
        """Announce to the ranks that the gradients of these parameters are to be summed.

        ``weight`` is this rank's share of the samples, ``loss_share`` its part of the mean loss, ``aside`` has
        gradients of earlier batches, weighted already, of which those of these parameters are used up. During the
        backward pass each pack is summed as soon as its gradients are there.

        Raises LostRankError if a rank was lost, or differs; OddOneOutError if this one differs.
        """
        self._plan()
        self._world, self._weight = self._training.world, weight
        self._aside = {own: aside.pop(own) for own in self._parameters if own in aside}
        self._begun, self._none_here, self._broke_with = 0, set(), None
        self.measured = torch.zeros(())
        digest = self._digest + self._drawing.mark
        self._asked = self._training.ask("sum of gradients", digest, loss_share)
        if self._digest != self._trusted:
            # Sums of other shapes than the others' would end the process from within gloo.
            self._training.agree(self._asked)
            # Once for each world and plan: from now on the answers are taken in after the sums have begun.
            self._trusted = self._digest
        for pack in self._packs:
            pack.missing = {id(parameter) for parameter in pack.parameters}
        self._is_open = during_backward
        for parameter in self._parameters if during_backward else ():
            # Hooks stay, and do nothing while no sums are open.
            if parameter not in self._hooked:
                self._hooked.add(parameter)
                register: Any = parameter.register_post_accumulate_grad_hook
                register(self._arrived)

    def finish(self) -> None:
        """Let the parameters have the sums; one that has no gradient anywhere has none.

        Raises as :meth:`begin` does.
        """
        self._is_open = False
        if self._broke_with is not None:
            raise self._broke_with
        with torch.no_grad():
            while self._begun < len(self._packs):
                self._start_next()
            finish_buffers = start_broadcast(self._buffers(), 0, self._world)
            self._training.agree(self._asked)
            for pack in self._packs:
                assert pack.finish is not None
                pack.finish()
                unflatten(pack.flat, pack.gradients)
            finish_buffers()
            add_up_tensors([local(shard.grad) for shard in self._shards], self._world.peers)
            # The sum of all ranks' words: 0 where each has gradients where it had some before.
            if self._packs[-1].flat[-1] != 0:
                # Find out, with the other ranks, which parameters have a gradient on no rank.
                here = [float(place not in self._none_here) for place in range(len(self._parameters))]
                present = self._world.sum(here)
                self._none_anywhere = frozenset(place for place, ranks in enumerate(present) if not ranks)
            for place in self._none_anywhere:
                self._parameters[place].grad = None
        for pack in self._packs:
            pack.gradients, pack.finish = [], None
        for pack in self._packs[:-1]:
            pack.flat = torch.empty(0)

    # -- packs

    def _plan(self) -> None:
        """Plan which gradients travel together; the plan stays until other parameters take part."""
        parameters = list(parameters_of(self._optimizer))
        # By identity: == compares the values of tensors.
        known = [id(parameter) for parameter in parameters]
        if known == self._known:
            return
        self._known, self._parameters = known, parameters
        self._place = {parameter: place for place, parameter in enumerate(parameters)}
        self._none_anywhere = frozenset()
        self._shards = [parameter for parameter in parameters if is_sharded(parameter)]
        whole = [parameter for parameter in reversed(parameters) if not is_sharded(parameter)]
        self._packs = [_Pack(pack) for pack in packs_of(whole)]
        # The last one, which also carries the word, has only small ones: it is copied into one message anyway.
        if not self._packs or sum(map(bytes_of, self._packs[-1].parameters)) >= CHUNK_BYTES:
            self._packs.append(_Pack([]))
        self._pack_of = {parameter: pack for pack in self._packs for parameter in pack.parameters}
        shapes = [(tuple(parameter.shape), str(parameter.dtype)) for parameter in parameters]
        places = [place for place, known in enumerate(parameters_in(self._optimizer)) if _takes_part(known)]
        self._digest = digest_of(shapes, places)

    def _arrived(self, parameter: torch.Tensor) -> None:
        """The backward pass has come to the end of this parameter's gradient."""
        pack = self._pack_of.get(parameter) if self._is_open else None
        if pack is None:
            return
        if id(parameter) not in pack.missing:
            raise InputError(
                "a parameter got its gradient twice in the last backward pass of a step.",
                "Checkpoint activations with use_reentrant=False, make one backward pass for each batch, or leave "
                "out overlap=True.",
            )
        pack.missing.discard(id(parameter))
        try:
            # In the order of the packs, not of their completion: all ranks have to begin the same sums.
            while self._begun < len(self._packs) - 1 and not self._packs[self._begun].missing:
                with torch.no_grad():
                    self._start_next()
        except LostRankError as error:
            # Raised in finish(): from within a hook it would come out of the script's own backward().
            self._broke_with, self._is_open = error, False

    def _start_next(self) -> None:
        """Begin to sum the next pack; the last one with the word whether gradients are where they were."""
        pack = self._packs[self._begun]
        self._begun += 1
        pack.gradients = [self._weighted(parameter) for parameter in pack.parameters]
        if self._scaling is not None:
            pairs = zip(pack.parameters, pack.gradients, strict=True)
            self.measured = self.measured + self._scaling.squared_norm(pairs)
        if self._begun < len(self._packs):
            pack.flat = flatten(pack.gradients)
        else:
            for parameter in self._shards:
                self._weighted(parameter)
            is_otherwise = float(self._none_here != self._none_anywhere)
            like = pack.gradients[0] if pack.gradients else self._parameters[0]
            word = torch.full((1,), is_otherwise, dtype=like.dtype, device=like.device)
            # In the memory of the step before: new memory costs as much as filling it.
            room = pack.flat if pack.flat.numel() else word.new_empty(0)
            torch.cat([*(gradient.reshape(-1) for gradient in pack.gradients), word], out=room)
            pack.flat = room
        pack.finish = self._world.start_add_up([pack.flat])

    def _weighted(self, parameter: torch.Tensor) -> torch.Tensor:
        if parameter.grad is None and parameter not in self._aside:
            self._none_here.add(self._place[parameter])
        parameter.grad = weighted(parameter, self._weight, self._adds_up_shards)
        if parameter in self._aside:
            parameter.grad.add_(self._aside[parameter])
        return parameter.grad


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    """The parameters that it may change, each once."""
    return dict.fromkeys(parameter for parameter in parameters_in(optimizer) if _takes_part(parameter))


def _takes_part(parameter: torch.Tensor) -> bool:
    """Whether an optimizer steps with it: also a frozen parameter, if it has a gradient from before."""
    return parameter.requires_grad or parameter.grad is not None


def weighted(parameter: torch.Tensor, weight: float, adds_up_shards: bool) -> torch.Tensor:
    """This rank's gradient times its share of the samples, in place; zeros where it has none.

    Raises:
        InputError: it is sparse.
    """
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter)
    if gradient.layout is not torch.strided:
        raise InputError("some gradients are sparse, which cannot be added up.", "Use sparse=False.")
    if is_sharded(gradient) and adds_up_shards:
        return gradient  # each rank's part was weighted before the node's were added up
    # A repeated sample's may be infinite.
    return gradient.zero_() if weight == 0.0 else gradient.mul_(weight)
