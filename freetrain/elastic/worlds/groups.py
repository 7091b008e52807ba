"""Torch's process groups: formed and dropped in a process that lives on."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import warnings
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

FOREVER = timedelta(days=7)
"""Collectives never time out by themselves: a slow rank is no lost rank. Losses are found by the watcher, which
cuts the connections."""


def form_default(backend: str, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
    """Torch's default process group; ``timeout`` is that for forming it."""
    with warnings.catch_warnings(), _torch_as_if_new():
        warnings.simplefilter("ignore")
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    dist.distributed_c10d._set_pg_timeout(FOREVER)


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
    dist.distributed_c10d._world.pg_group_ranks[group] = {each: each for each in range(size)}
    dist.distributed_c10d._set_pg_timeout(FOREVER, group)
    return group


@contextlib.contextmanager
def _torch_as_if_new() -> Iterator[None]:
    """Let torch form a group as it would in a process that never had one.

    Torch numbers its groups and puts the number into the store's keys, but forgets it only with a group that had
    formed: who once failed to form one would look for the others under keys of its own for ever. And it wraps the
    exception hook again with each group, so that a traceback would name all ranks that this process ever was.
    """
    hook = sys.excepthook
    dist.distributed_c10d._world.group_count = 0
    try:
        yield
    finally:
        sys.excepthook = hook


def abort_nccl(groups: Iterable[dist.ProcessGroup | None]) -> None:
    """Abort NCCL communicators, whose kernels would otherwise spin on the device for ever; None: the default."""
    if dist.is_initialized() and torch.cuda.is_available():
        abort: Any = getattr(dist.distributed_c10d, "_abort_process_group", None)
        for group in dict.fromkeys(groups):
            with contextlib.suppress(Exception):  # older torch has no such function
                abort(group)


def keep_for_ever(group: Any) -> None:
    """Never let this group be destroyed, not even at exit: that would wait for a thread which never ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
