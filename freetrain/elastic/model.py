"""The model as the training script calls it: wrapped for the present world, whichever that is."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

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
        self.lost: BaseException | None = None
        self.last_bucket_s = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One forward pass."""
        if self._ddp is None or self.lost is not None:
            return self.module(*args, **kwargs)
        try:
            return self._ddp(*args, **kwargs)
        except RuntimeError as error:
            if not is_lost_peer(error):
                raise
            self.lost = error
            return self.module(*args, **kwargs)

    def enter(self, world: World) -> None:
        """Wrap the model for this world; all ranks have the same state already."""
        self.lost = None
        with lost_ranks(), warnings.catch_warnings():
            # torch 2.13 renames broadcast_buffers; torch 2.4 knows no other name.
            warnings.simplefilter("ignore", FutureWarning)
            self._ddp = DistributedDataParallel(
                self.module,
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

    def syncing(self, wanted: bool) -> Any:
        """Whether the passes inside exchange their gradients."""
        assert self._ddp is not None
        return _nothing() if wanted else self._ddp.no_sync()

    def sync_buffers(self) -> None:
        """Give all ranks rank 0's buffers (running means and the like), as DDP would in its forward pass."""
        with lost_ranks():
            for buffer in self.module.buffers():
                dist.broadcast(buffer.detach(), 0)

    def _sum_gradients(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Add the ranks' gradients up; each is weighted by its share of the samples already."""
        self.last_bucket_s = time.perf_counter()
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        future: torch.futures.Future[Any] = work.get_future()
        return future.then(lambda done: done.value()[0])


class _nothing:  # noqa: N801 (stands in for no_sync)
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
