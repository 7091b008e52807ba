"""Tensors of which each worker of a replica has a shard: torch's DTensor, where the script has made any."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def is_sharded(value: Any) -> TypeGuard[DTensor]:
    """Whether it is one; does not import what makes them."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def local(tensor: Any) -> torch.Tensor:
    """What this worker has of it, in its own memory: all of it, unless it is sharded."""
    if is_sharded(tensor):
        with torch.no_grad():
            return tensor.to_local()
    mine: torch.Tensor = tensor
    return mine


def with_local(like: DTensor, mine: torch.Tensor) -> DTensor:
    """A tensor that is sharded as the other one is, of which this worker has this."""
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        mine, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def layout(tensor: DTensor) -> list[int | None]:
    """Along which dimension each dimension of the mesh shards it; None where it has copies."""
    return [getattr(place, "dim", None) for place in tensor.placements]


def empty(shape: list[int], dtype: torch.dtype, dimensions: list[int | None], mesh: DeviceMesh) -> DTensor:
    """A tensor that is sharded over this mesh, of any values."""
    from torch.distributed import tensor

    placements = [tensor.Replicate() if each is None else tensor.Shard(each) for each in dimensions]
    return tensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=placements)


def sharded_modules(module: torch.nn.Module) -> Iterator[Any]:
    """The parts of a model to which ``fully_shard`` was applied."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and hasattr(fsdp, "FSDPModule"):
        yield from (each for each in module.modules() if isinstance(each, fsdp.FSDPModule))
