"""Parts of torch that are replaced for an adopted script: one table."""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import ChainedScheduler, LRScheduler, ReduceLROnPlateau, SequentialLR
from torch.utils.data import DataLoader

from freetrain.elastic.adopting.adoption import Adoption
from freetrain.elastic.adopting.counts import numbered
from freetrain.elastic.adopting.samplers import note_loader
from freetrain.elastic.errors import NotAdoptedError
from freetrain.elastic.worlds.groups import form_alone

log = logging.getLogger(__name__)

Original = Callable[..., Any]
Patch = tuple[Any, str, Callable[[Original], Original]]

# All others call the first one's ``__init__``.
_SCHEDULES = (LRScheduler, ReduceLROnPlateau, SequentialLR, ChainedScheduler)
# All else may be a loader, a progress bar, or a generator of the script's over either.
_HOLD_NO_BATCHES = frozenset({list, tuple, dict, str, range, torch.Tensor, torch.nn.ModuleList})
# What divides a model or its ranks in other ways: scripts that use it are not adopted.
_OTHER_FORMS = (
    (dist, "new_group"),
    (dist, "new_subgroups"),
    (dist, "init_device_mesh"),
    (torch.nn.SyncBatchNorm, "convert_sync_batchnorm"),
    # Which rank is the other one changes with the world.
    *((dist, name) for name in ("send", "recv", "isend", "irecv", "batch_isend_irecv")),
)
_EXCHANGES = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
)


def patches(adoption: Adoption) -> Iterable[Patch]:
    """Each replaced attribute, with what makes its replacement from the original."""
    yield dist, "init_process_group", lambda _: _init_process_group
    yield dist, "destroy_process_group", lambda _: lambda group=None: adoption.end()
    yield dist, "broadcast_object_list", lambda original: _unless(adoption, original)
    yield torch.multiprocessing, "spawn", lambda _: _spawn
    # Optimizers' hooks add the gradients up: DDP's reducer must not run, nor its constructor, which makes one.
    yield DistributedDataParallel, "__init__", lambda _: _noting_model(adoption)
    yield DistributedDataParallel, "forward", lambda _: lambda ddp, *args, **kwargs: ddp.module(*args, **kwargs)
    yield DistributedDataParallel, "no_sync", lambda _: lambda ddp: contextlib.nullcontext()
    yield DistributedDataParallel, "join", lambda _: lambda ddp, *args, **kwargs: contextlib.nullcontext()
    # Torch's own look for the process group and the reducer; copy.deepcopy(), as for averaged models, calls them.
    yield DistributedDataParallel, "__getstate__", lambda _: lambda ddp: dict(ddp.__dict__)
    yield DistributedDataParallel, "__setstate__", lambda _: torch.nn.Module.__setstate__
    yield torch.optim.Optimizer, "__init__", lambda original: _then(original, adoption.note_optimizer)
    for kind in (*_SCHEDULES, torch.amp.GradScaler):
        yield kind, "__init__", lambda original: _then(original, adoption.note_carried)
    yield torch.amp.GradScaler, "unscale_", lambda original: _then(original, adoption.note_sums)
    # copy.deepcopy() makes modules without their constructor.
    for name in ("__init__", "__setstate__"):
        yield torch.nn.Module, name, lambda original: _then(original, adoption.note_module)
    yield DataLoader, "__iter__", lambda original: lambda loader: adoption.iterate(loader, original)
    yield DataLoader, "__init__", lambda original: _then(original, note_loader)
    yield torch, "save", lambda original: _sparing_files(adoption, original)
    yield builtins, "enumerate", _numbering
    for name in _EXCHANGES:
        yield dist, name, partial(_noticing_exchanges, adoption, name)
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        yield torch.nn.utils, name, lambda original: _clipping_sums(adoption, original)
    for owner, name in _OTHER_FORMS:
        yield owner, name, partial(_refusing, name)


def _init_process_group(
    _backend: object = None,
    _init_method: object = None,
    _timeout: object = None,
    world_size: int = -1,
    rank: int = -1,
    *_: object,
    **__: object,
) -> None:
    """Make the group of the set-up; backend and address are the runtime's affair later."""
    my_rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world_size not in (-1, ranks):
        raise NotAdoptedError(f"it says that there are {world_size} ranks, and freetrain runs it as for {ranks}")
    if rank not in (-1, my_rank):
        log.warning(
            "the script says that it is rank %d, and was started as rank %d: what it leaves to rank 0 may be done "
            "twice, or not at all",
            rank,
            my_rank,
        )
    form_alone(my_rank, ranks)


def _spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), *_: object, **__: object) -> None:
    """Run one of the processes in this one: the agent has started the others."""
    fn(int(os.environ["LOCAL_RANK"]), *args)


def _noting_model(adoption: Adoption) -> Original:
    def init(ddp: Any, module: torch.nn.Module, *_: object, **__: object) -> None:
        torch.nn.Module.__init__(ddp)
        ddp.module = module
        adoption.models.append(module)

    return init


def _then(original: Original, note: Callable[[Any], None]) -> Original:
    """A replacement that calls the original method and then notes its object."""

    def method(item: Any, *args: Any, **kwargs: Any) -> None:
        original(item, *args, **kwargs)
        note(item)

    return method


def _sparing_files(adoption: Adoption, original: Original) -> Original:
    """Save whole files only, as a newcomer may load one meanwhile, and none over another in a rehearsal."""

    def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(f, str | os.PathLike):
            original(obj, f, *args, **kwargs)
        elif not (adoption.is_rehearsing and Path(f).exists()):
            unfinished = f"{os.fspath(f)}.{os.getpid()}.new"
            original(obj, unfinished, *args, **kwargs)
            Path(unfinished).replace(f)

    return save


def _noticing_exchanges(adoption: Adoption, name: str, original: Original) -> Original:
    """The script exchanges tensors over the default group; the runtime names its groups."""

    def exchange(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if kwargs.get("group") is None:
            tensors = [item for item in given if isinstance(item, torch.Tensor)]
            adoption.before_exchange(name, tensors)
            operations = [item for item in given if isinstance(item, dist.ReduceOp.RedOpType)]
            if name in ("all_reduce", "reduce") and operations in ([], [dist.ReduceOp.SUM]):
                adoption.before_sum()
        return original(*args, **kwargs)

    return exchange


def _clipping_sums(adoption: Adoption, original: Original) -> Original:
    def clip(parameters: torch.Tensor | Iterable[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        clipped = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        adoption.before_clipping(clipped)
        return original(clipped, *args, **kwargs)

    return clip


def _numbering(original: Any) -> Original:
    """Enumerate in Python, so that the number is one of the script's counts."""

    # A class, as enumerate is one: scripts may use it in isinstance() or derive from it.
    class Enumerate(original):  # type: ignore[misc]
        def __new__(cls, iterable: Iterable[Any], start: int = 0) -> Any:
            if type(iterable) in _HOLD_NO_BATCHES:
                return original(iterable, start)
            return numbered(iterable, start)

    return Enumerate


def _unless(adoption: Adoption, original: Original) -> Original:
    """Leave a rank's own objects alone in a rehearsal, where nobody sends others."""

    def broadcast(*args: Any, **kwargs: Any) -> None:
        if not adoption.is_rehearsing:
            original(*args, **kwargs)

    return broadcast


def _refusing(name: str, _: Original) -> Original:
    def refuse(*_: object, **__: object) -> None:
        raise NotAdoptedError(f"it uses {name}")

    return refuse
