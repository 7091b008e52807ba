"""Torch's process groups: formed and dropped in a process that lives on, and the one that scripts find."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partialmethod
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Work

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.worlds.calls import PendingCalls
from freetrain.errors import InputError

FOREVER = timedelta(days=7)
"""Timeout of collectives, which never comes by itself: a slow rank is not a lost rank. Losses are found by the
watcher, which cuts the connections."""

_NCCL_SETTINGS = {
    # Else torch ends this process when another rank is lost, or when it believes this one to be stuck.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    # Else its watchdog writes a dump after a loss and sleeps for a minute, and leaving the group waits for it.
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1",
}
"""Settings with which torch's watchdog of NCCL leaves lost ranks to this package's watcher."""

_WATCHED = (
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allreduce",
    "allreduce_coalesced",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "_allgather_base",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "scatter",
)
# Exchanges between two ranks: the others need to know nothing of these.
_PASSED_ON = ("recv", "recv_anysource", "send")
_ALONE = "freetrain"
# Outputs of these are filled in where a rank was lost; other collectives work in place, or leave theirs alone.
_WITH_OUTPUTS = ("all_gather_single", "allgather", "_allgather_base", "gather")


def form_default(backend: str, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
    """Torch's default process group; ``timeout`` is that for forming it."""
    if "nccl" in backend:
        os.environ.update(_NCCL_SETTINGS)
    with warnings.catch_warnings(), _torch_as_if_new():
        warnings.simplefilter("ignore")
        # By its home: scripts that are adopted find others in torch.distributed.
        dist.distributed_c10d.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    # Torch takes one timeout for forming the group and for its collectives, which need different ones.
    dist.distributed_c10d._set_pg_timeout(FOREVER)


def form_alone(rank: int, size: int) -> None:
    """Torch's default process group before there is a world: a script's, whose ranks do not know each other."""
    if _ALONE not in dist.Backend.backend_list:
        dist.Backend.register_backend(
            _ALONE, lambda _store, rank, size, _timeout: ScriptsGroup(rank, size), devices=["cpu", "cuda"]
        )
    dist.distributed_c10d.init_process_group(_ALONE, store=dist.HashStore(), rank=rank, world_size=size)


def put_in_front(group: dist.ProcessGroup, inner: dist.ProcessGroup) -> None:
    """Let scripts find this group in place of torch's default one."""
    torchs: Any = dist.distributed_c10d
    for facts in (torchs._world.pg_map, torchs._world.pg_names, torchs._world.pg_group_ranks):
        facts[group] = facts[inner]
    torchs._update_default_pg(group)


def form_beside(
    name: str, backend: str, store: dist.Store, rank: int, size: int, timeout: timedelta
) -> dist.ProcessGroup:
    """A process group beside the default one, which torch does not take for a part of that."""
    make: Any = dist.distributed_c10d._new_process_group_helper
    group: dist.ProcessGroup
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group, _ = make(size, rank, [], backend, store, name, timeout=timeout)
    dist.distributed_c10d._world.pg_group_ranks[group] = {rank: rank for rank in range(size)}
    dist.distributed_c10d._set_pg_timeout(FOREVER, group)
    return group


@contextlib.contextmanager
def _torch_as_if_new() -> Iterator[None]:
    """Let torch form a group as it would in a process that never had one."""
    # Torch wraps the hook again with each group: a traceback would name all ranks that this process ever was.
    hook = sys.excepthook
    # The count is in the store's keys, and torch forgets it only with a group that had formed: after a failure
    # this process would look for the others under keys of its own for ever.
    dist.distributed_c10d._world.group_count = 0
    try:
        yield
    finally:
        sys.excepthook = hook


def abort_nccl(groups: Iterable[dist.ProcessGroup | None]) -> None:
    """Abort NCCL communicators, whose kernels would otherwise spin on the device for ever; None is passed over.

    An aborted collective looks completed, but its values are undefined: mark the world as cut before.
    """
    for group in dict.fromkeys(groups):
        # Without a GPU there is no such backend.
        with contextlib.suppress(RuntimeError):
            if group is not None:
                backend: Any = group._get_backend(torch.device("cuda"))
                # Before torch 2.6 shutting down is aborting.
                (backend.abort if hasattr(backend, "abort") else backend._shutdown)()


def keep_for_ever(group: Any) -> None:
    """Never let this group be destroyed, not even at exit: that would wait for a thread which never ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


class AnnouncedWorld(Protocol):
    """The part of a world that the script's group needs: see :class:`freetrain.elastic.worlds.world.World`."""

    size: int
    group: dist.ProcessGroup | None
    is_script_alone: Callable[[], bool]
    on_script_loss: Callable[[LostRankError], object]

    def ask(self, what: str) -> PendingCalls:
        """Announce a collective to all ranks."""

    def finish(self, works: Sequence[Any]) -> None:
        """Wait until these have ended."""


class ScriptsGroup(dist.ProcessGroup):
    """Torch's default process group, in front of the world's own one, for scripts and libraries that they use.

    Every collective on it is announced to all ranks before it begins, as the runtime's own collectives are. A rank
    that is lost meanwhile is no error of the script: it gets its own values, and the step is made again. Without a
    world each rank is alone.
    """

    def __init__(self, rank: int, size: int, world: AnnouncedWorld | None = None) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg,unused-ignore]
        self._world = world

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """A name that torch does not know: behind one that it knows it looks for the backend itself."""
        return _ALONE

    def shutdown(self) -> None:
        """Do nothing: the group inside is left by its world."""

    def _watched(self, name: str, *args: Any, **kwargs: Any) -> Work:
        """Tell all ranks, then do it, and return when it is done."""
        world = self._world
        if world is not None and world.size > 1 and not world.is_script_alone():
            try:
                world.ask(f"torch.distributed {name.strip('_')}").wait()
                world.finish([getattr(world.group, name)(*args, **kwargs)])
            except LostRankError as error:
                world.on_script_loss(error)
            else:
                return _Done()
        if name in _WITH_OUTPUTS:
            _fill(args[0], args[1])
        return _Done()

    def _passed_on(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._world is None:
            raise InputError(
                f"torch.distributed.{name.partition('_')[0]} was called before there were other ranks.",
                "Call it in the loop over the training's batches.",
            )
        return getattr(self._world.group, name)(*args, **kwargs)


for _name in _WATCHED:  # the newer names and the older ones
    setattr(ScriptsGroup, _name, partialmethod(ScriptsGroup._watched, _name))
for _name in _PASSED_ON:
    setattr(ScriptsGroup, _name, partialmethod(ScriptsGroup._passed_on, _name))


class _Done(Work):
    """A collective that has ended."""

    def is_completed(self) -> bool:
        return True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(None)
        return future


def _fill(outputs: Any, inputs: Any) -> None:
    """Copy this rank's own values to the places of all ranks' values."""
    if isinstance(outputs, torch.Tensor):
        outputs.view(-1, inputs.numel()).copy_(inputs.reshape(1, -1))
        return
    for row, mine in zip(outputs, inputs, strict=False):
        for output in row if isinstance(row, Sequence) else [row]:
            output.copy_(mine)
