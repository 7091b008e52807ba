"""DDP around a model: made for one world, kept for the next ones, or made before the first one."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from freetrain.elastic.training.buckets import Buckets
from freetrain.elastic.worlds.ddp_group import DdpGroup

log = logging.getLogger(__name__)

_UNSYNCED: dict[str, Any] = (
    {"init_sync": False} if "init_sync" in signature(DistributedDataParallel).parameters else {}
)
"""All ranks have the same state already; torch 2.4 exchanges it again in any case."""

_LAST_AFTER_PASSES = 2
"""So many passes that add gradients up: in the second one DDP makes its buckets anew, all ranks together."""

_REHEARSED_OPTIONS = {"gradient_as_bucket_view", "bucket_cap_mb"}
"""With others DDP may make its buckets otherwise, or look at the script's own passes for it."""


class Wrapper:
    """DDP around a model.

    Args:
        module: the model.
        group: that DDP is given.
        made_in: number of the world that it is made for; 0: of none yet.
        options: of DDP.
        sum_bucket: begins to add up a bucket's gradients; its future.

    Attributes:
        ddp: to be called in place of the model.
        group: as given.
        made_in: number of the world in which its buckets were made.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        group: DdpGroup,
        made_in: int,
        options: Mapping[str, Any],
        sum_bucket: Callable[[dist.GradBucket], Any],
    ) -> None:
        self.group = group
        self.made_in = made_in
        chosen = {name for name, value in options.items() if value}
        self._can_be_rehearsed = bool(_UNSYNCED) and chosen <= _REHEARSED_OPTIONS
        self._parameters: Sequence[torch.Tensor] = list(module.parameters())
        # DDP holds its hook for ever: in a cycle with it, its memory would never be free.
        self._passes = passes = _Passes(self._parameters, sum_bucket)
        self.ddp = _wrapped(module, group, options)
        # A lambda, since torch compares annotations with types, and here they are strings.
        self.ddp.register_comm_hook(None, lambda state, bucket: passes.sum(bucket))

    @property
    def is_settled(self) -> bool:
        """Whether its buckets are those that it has for good, and no pass was left in the middle."""
        return self._passes.count >= _LAST_AFTER_PASSES

    @property
    def buckets(self) -> Buckets | None:
        """Of which newcomers can make the same wrapper; None while they do not last, or where newcomers cannot."""
        return Buckets(self.made_in, self._passes.places) if self.is_settled and self._can_be_rehearsed else None

    def doubt(self) -> None:
        """A pass was left, perhaps in the middle."""
        self._passes.count = 0

    def rehearse(self, buckets: Buckets) -> bool:
        """Make these buckets before there is a world; False: it cannot, and is of no use.

        DDP makes its buckets in the second pass, in the order in which the gradients of the first one came. These
        two passes have gradients of zero that come in the order of the buckets asked for.
        """
        order = [place for places in buckets.places for place in places]
        if not self._can_be_rehearsed or self._has_hooks() or set(order) != self._trained():
            return False
        module, self.ddp.module = self.ddp.module, _NoPass()
        try:
            while not self.is_settled:
                self.ddp()
                for place in order:
                    _give_no_gradient(self._parameters[place])
        except RuntimeError as error:
            log.info("the wrapper of the model is made when the world is there (%s)", error)
            return False
        finally:
            self.ddp.module = module
            for parameter in self._parameters:
                parameter.grad = None
        self.made_in = buckets.made_in
        return self._passes.places == buckets.places

    def _trained(self) -> set[int]:
        return {place for place, parameter in enumerate(self._parameters) if parameter.requires_grad}

    def _has_hooks(self) -> bool:
        """Whether scripts would be told of gradients that are none."""
        names = ("_backward_hooks", "_post_accumulate_grad_hooks")
        return any(getattr(parameter, name, None) for parameter in self._parameters for name in names)


class _Passes:
    """How many passes there were, and the buckets of the last one that may differ from the one before."""

    def __init__(self, parameters: Sequence[torch.Tensor], sum_bucket: Callable[[dist.GradBucket], Any]) -> None:
        self.count = 0
        self.places: list[list[int]] = []
        self._place = {parameter: place for place, parameter in enumerate(parameters)}
        self._sum_bucket = sum_bucket

    def sum(self, bucket: dist.GradBucket) -> Any:
        """Look at a bucket, and add it up."""
        if self.count < _LAST_AFTER_PASSES:
            if bucket.index() == 0:
                self.places = []
            self.places.append([self._place[parameter] for parameter in bucket.parameters()])
        self.count += bucket.is_last()
        return self._sum_bucket(bucket)


def _wrapped(module: torch.nn.Module, group: DdpGroup, options: Mapping[str, Any]) -> DistributedDataParallel:
    with warnings.catch_warnings():
        # torch 2.13 renames broadcast_buffers; torch 2.4 knows no other name.
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedDataParallel(
            module, process_group=group, broadcast_buffers=False, **_UNSYNCED, **options
        )


def _give_no_gradient(parameter: torch.Tensor) -> None:
    """A gradient of zero, which takes no memory before it comes to DDP."""
    zero = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
    parameter.backward(zero.expand_as(parameter))  # type: ignore[no-untyped-call,unused-ignore]


class _NoPass(torch.nn.Module):
    """Stands in for the model where only gradients matter."""

    def forward(self) -> None:
        """Nothing."""
