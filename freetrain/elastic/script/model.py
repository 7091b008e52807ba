"""The model as the training script calls it: wrapped for the present world, whichever that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.wrapper import Wrapper
from freetrain.elastic.training.buckets import Buckets
from freetrain.elastic.worlds.ddp_group import DdpGroup
from freetrain.elastic.worlds.exchange import broadcast_tensors
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

_OURS = {"process_group", "init_sync"}
_BUFFERS = ("broadcast_buffers", "forward_sync_buffers")
"""The older name and the newer one."""


class ElasticModel:
    """Calls the model through DDP.

    Its wrapper is kept for the next world where all ranks of that have the same one: the memory of new buckets may
    cost as much as half a step.

    Args:
        module: the model.
        ddp_options: of ``DistributedDataParallel``. Whether buffers are shared is heeded here: the runtime does it
            in place of DDP.

    A rank that vanishes in the middle of a forward pass must not throw the training script out of its loop: the
    pass then goes through the bare model, and the step is taken back afterwards.

    Attributes:
        lost: why the step under way does not count; None if it does.
        measure: told of parameters and this rank's own gradients, before they are summed; None: nobody is.
        measured: the sum of what it said in this step.
    """

    def __init__(self, module: torch.nn.Module, **ddp_options: Any) -> None:
        for name in _OURS & ddp_options.keys():
            raise InputError(f"ddp_options: {name} is the runtime's own to give.", f"Leave {name} out.")
        self.module = module
        shares = [ddp_options.pop(name) for name in _BUFFERS if name in ddp_options]
        self._shares_buffers = all(each is not False for each in shares)
        self._ddp_options = {"gradient_as_bucket_view": True, **ddp_options}
        self._wrapper: Wrapper | None = None
        self._world: World | None = None
        self._left: World | None = None
        self.lost: BaseException | None = None
        self.last_bucket_s = 0.0
        self.summed_buckets = 0
        self.measure: Callable[[Iterable[tuple[torch.Tensor, torch.Tensor]]], torch.Tensor] | None = None
        self.measured = torch.zeros(())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One forward pass; what the module itself raises is raised here."""
        if self._wrapper is None or self._world is None or self.lost is not None:
            return self.module(*args, **kwargs)
        try:
            return self._wrapper.ddp(*args, **kwargs)
        except (LostRankError, RuntimeError) as error:
            if not self.takes_for_loss(error):
                raise
        return self.module(*args, **kwargs)

    def takes_for_loss(self, error: LostRankError | RuntimeError) -> bool:
        """Note the error of a pass if it comes from a lost rank; False if it is the script's own."""
        if self._wrapper is not None:
            self._wrapper.doubt()
        if self._world is None or not (isinstance(error, LostRankError) or self._world.broke(error)):
            return False
        self.lost = self.lost or error
        return True

    @property
    def buckets(self) -> Buckets | None:
        """Of the wrapper, for newcomers that are to have the same ones; None: none that last."""
        return self._wrapper.buckets if self._wrapper is not None else None

    @property
    def wrapped_in(self) -> int:
        """Number of the world for which the model was wrapped; 0: the next world needs another wrapper.

        Ranks with the same number have the same buckets, for good, and nobody writes into them any more.
        """
        may_be_written = self._left is not None and not self._left.ended
        if self._wrapper is None or may_be_written or not self._wrapper.is_settled:
            return 0
        return self._wrapper.made_in

    def prepare(self, buckets: Buckets) -> None:
        """Have the wrapper that others have, and its memory, before this rank's first world; where that can be."""
        self.unwrap()
        wrapper = self._wrapped(DdpGroup(None), 0)
        if wrapper.rehearse(buckets):
            self._wrapper = wrapper

    def unwrap(self) -> None:
        """Drop the wrapper and its memory."""
        self._wrapper = None

    def enter(self, world: World) -> None:
        """Go on in this world, with the wrapper that is there or a new one; all ranks have the same state already.

        Raises:
            LostRankError: a rank was lost meanwhile.
        """
        self.lost = None
        self.measured = torch.zeros(())
        self._world, self._left = world, None
        group = world.ddp_group(self._wrapper.group if self._wrapper is not None else None)
        if self._wrapper is not None:
            return
        try:
            self._wrapper = self._wrapped(group, world.generation.number)
        except RuntimeError as error:
            if not world.broke(error):
                raise
            raise LostRankError(str(error)) from error

    def _wrapped(self, group: DdpGroup, made_in: int) -> Wrapper:
        return Wrapper(self.module, group, made_in, self._ddp_options, self._sum_gradients)

    def leave(self) -> None:
        """The world is about to end."""
        self._left, self._world = self._world or self._left, None

    def syncing(self, wanted: bool) -> Any:
        """Whether the passes inside exchange their gradients."""
        assert self._wrapper is not None
        return _nothing() if wanted else self._wrapper.ddp.no_sync()

    def sync_buffers(self) -> None:
        """Give all ranks rank 0's buffers (running means and the like), as DDP would in its forward pass."""
        assert self._world is not None
        if not self._shares_buffers:
            return
        broadcast_tensors(self.module.buffers(), 0, self._world)

    def _sum_gradients(self, bucket: dist.GradBucket) -> Any:
        """Add the ranks' gradients up; each is weighted by its share of the samples already."""
        if self._world is None:
            return _done(bucket.buffer())
        self.last_bucket_s = time.perf_counter()
        self.summed_buckets += 1
        if self.measure is not None:
            self.measured = self.measured + self.measure(zip(bucket.parameters(), bucket.gradients(), strict=True))
        return self._world.promise_sum(bucket.buffer(), partial(self._note_loss, self._world))

    def _note_loss(self, world: World, error: BaseException) -> None:
        """From another thread, perhaps when this world has been left already."""
        if world is self._world:
            self.lost = error


def _done(tensor: torch.Tensor) -> Any:
    """A future that has come already: nobody else is there."""
    done: Any = torch.futures.Future()
    done.set_result(tensor)
    return done


class _nothing:  # noqa: N801 (stands in for no_sync)
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
