"""The tensors of a training's state: sharded ones (torch's DTensor), and how all are detached from a state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

_TENSOR = "freetrain.tensor"
_SHARDED = "freetrain.sharded"


def is_sharded(value: Any) -> TypeGuard[DTensor]:
    """Whether it is one; does not import what makes them."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def local(tensor: Any) -> torch.Tensor:
    """This worker's part of the tensor, in its own memory: all of it, unless it is sharded."""
    if is_sharded(tensor):
        # Without gradients: to_local() is an operation of autograd, which would have the shard in a graph.
        with torch.no_grad():
            return tensor.to_local()
    mine: torch.Tensor = tensor
    return mine


def with_local(like: DTensor, mine: torch.Tensor) -> DTensor:
    """A tensor that is sharded as the other one is, of which this worker has this."""
    from torch.distributed.tensor import DTensor

    # Shape and stride are given, since shards may be uneven; run_check would ask the other workers.
    return DTensor.from_local(
        mine, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def layout(tensor: DTensor) -> list[int | None]:
    """Along which dimension each dimension of the mesh shards it; None where it has copies."""
    return [getattr(place, "dim", None) for place in tensor.placements]


def empty(shape: list[int], dtype: torch.dtype, dimensions: list[int | None], mesh: DeviceMesh) -> DTensor:
    """A tensor that is sharded over this mesh, of any values."""
    from torch.distributed import tensor

    placements = [tensor.Replicate() if dimension is None else tensor.Shard(dimension) for dimension in dimensions]
    return tensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=placements)


def sharded_modules(module: torch.nn.Module) -> Iterator[Any]:
    """The parts of a model to which ``fully_shard`` was applied."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and hasattr(fsdp, "FSDPModule"):
        yield from (part for part in module.modules() if isinstance(part, fsdp.FSDPModule))


@dataclass
class DetachedTensors:
    """The tensors of a skeleton, by their places in the state."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)  # that all ranks have the same of
    shards: dict[str, DTensor] = field(default_factory=dict)  # of which each worker of a replica has a part

    def add(self, place: str, tensor: torch.Tensor) -> None:
        """Note it under this name, or under a similar one where two places are written alike."""
        while place in self.tensors or place in self.shards:
            place += "'"
        if is_sharded(tensor):
            self.shards[place] = tensor
        else:
            self.tensors[place] = tensor


def detach_tensors(value: Any, contents: DetachedTensors, place: str = "") -> Any:
    """The value with its tensors taken out."""
    if is_sharded(value):
        contents.add(place, value)
        return (_SHARDED, list(value.shape), str(value.dtype), layout(value))
    if isinstance(value, torch.Tensor):
        contents.add(place, value)
        return (_TENSOR, list(value.shape), str(value.dtype), value.device.type)
    if isinstance(value, dict):
        return {key: detach_tensors(item, contents, _within(place, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [detach_tensors(item, contents, _within(place, index)) for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return value


def attach_tensors(
    skeleton: Any, contents: DetachedTensors, own: dict[str, Any], mesh: Callable[[], DeviceMesh]
) -> Any:
    """The reverse: tensors to receive into, noted in the same order, the model's own (by name) where they fit."""
    return _attach(skeleton, contents, {f"model.{name}": value for name, value in own.items()}, mesh, "")


def _attach(
    skeleton: Any, contents: DetachedTensors, own: dict[str, Any], mesh: Callable[[], DeviceMesh], place: str
) -> Any:
    if isinstance(skeleton, tuple) and len(skeleton) == 4 and skeleton[0] in (_TENSOR, _SHARDED):
        return _receiver(skeleton, contents, own.get(place), mesh, place)
    if isinstance(skeleton, dict):
        return {key: _attach(item, contents, own, mesh, _within(place, key)) for key, item in skeleton.items()}
    if isinstance(skeleton, list | tuple):
        items = [_attach(item, contents, own, mesh, _within(place, index)) for index, item in enumerate(skeleton)]
        return items if isinstance(skeleton, list) else tuple(items)
    return skeleton


def _receiver(
    what: Any, contents: DetachedTensors, known: Any, mesh: Callable[[], DeviceMesh], place: str
) -> torch.Tensor:
    kind, shape, name, where = what
    fits = isinstance(known, torch.Tensor) and list(known.shape) == shape and str(known.dtype) == name
    fits = fits and is_sharded(known) == (kind == _SHARDED)
    dtype = getattr(torch, name.removeprefix("torch."))
    tensor: torch.Tensor
    if kind == _SHARDED:
        tensor = known if fits else empty(shape, dtype, where, mesh())
    else:
        tensor = known.detach() if fits else torch.empty(shape, dtype=dtype, device=where)
    contents.add(place, tensor)
    return tensor


def _within(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)
