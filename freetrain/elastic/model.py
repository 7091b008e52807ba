"""The model as the training script calls it: wrapped for the present world, whichever that is."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from freetrain.elastic.exchange import broadcast_tensors
from freetrain.elastic.world import World, is_lost_peer, lost_ranks


class ElasticModel:
    """Calls the model through DDP, which is renewed in every world.

    A rank that vanishes in the middle of a forward pass must not throw the training script out of its loop: the
    pass then goes through the bare model, and the step is taken back afterwards.
    """

    def __init__(self, module: torch.nn.Module, **ddp_options: Any) -> None:
        self.module = module
        self._ddp_options = ddp_options
        self._ddp: DistributedDataParallel | None = None
        self._world: World | None = None
        self.lost: BaseException | None = None
        self.last_bucket_s = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One forward pass."""
        if self._ddp is None or self._world is None or self.lost is not None:
            return self.module(*args, **kwargs)
        self._world.out_of_reach = True
        try:
            return self._ddp(*args, **kwargs)
        except RuntimeError as error:
            if not is_lost_peer(error):
                raise
            self.lost = error
            return self.module(*args, **kwargs)
        finally:
            self._world.out_of_reach = False

    def enter(self, world: World) -> None:
        """Wrap the model for this world; all ranks have the same state already."""
        self.lost = None
        self._world = world
        with lost_ranks(), warnings.catch_warnings():
            # torch 2.13 renames broadcast_buffers; torch 2.4 knows no other name.
            warnings.simplefilter("ignore", FutureWarning)
            self._ddp = DistributedDataParallel(
                _Inner(self.module, world),
                broadcast_buffers=False,
                init_sync=False,
                gradient_as_bucket_view=True,
                **self._ddp_options,
            )
        # A lambda, since torch compares annotations with types, and here they are strings.
        self._ddp.register_comm_hook(None, lambda state, bucket: self._sum_gradients(bucket))

    def leave(self) -> None:
        """Drop the wrapper, and with it the hold on the process group."""
        self._ddp = None
        self._world = None

    def syncing(self, wanted: bool) -> Any:
        """Whether the passes inside exchange their gradients."""
        assert self._ddp is not None
        return _nothing() if wanted else self._ddp.no_sync()

    def sync_buffers(self) -> None:
        """Give all ranks rank 0's buffers (running means and the like), as DDP would in its forward pass."""
        assert self._world is not None
        broadcast_tensors(self.module.buffers(), 0, self._world)

    def _sum_gradients(self, bucket: dist.GradBucket) -> Any:
        """Add the ranks' gradients up; each is weighted by its share of the samples already."""
        assert self._world is not None
        self.last_bucket_s = time.perf_counter()
        return self._world.promise_sum(bucket.buffer(), partial(self._note_loss, self._world))

    def _note_loss(self, world: World, error: BaseException) -> None:
        """From another thread, perhaps when this world has been left already."""
        if world is self._world:
            self.lost = error


class _Inner(torch.nn.Module):
    """The module inside DDP, which exchanges the order of its buckets once in every world before it calls it."""

    def __init__(self, module: torch.nn.Module, world: World) -> None:
        super().__init__()
        self.module = module
        self._world = world

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own forward pass, which waits for nobody."""
        self._world.out_of_reach = False
        return self.module(*args, **kwargs)


class _nothing:  # noqa: N801 (stands in for no_sync)
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
