"""Tensors of a state: sharded ones (torch's DTensor), and how all are taken out of a state and put back."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
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

    @property
    def everything(self) -> list[torch.Tensor]:
        """All of these tensors, those that are sharded last."""
        return [*self.tensors.values(), *self.shards.values()]


def detach_tensors(value: Any) -> tuple[Any, DetachedTensors]:
    """The value with its tensors taken out, and these."""
    contents = DetachedTensors()

    def header_of(leaf: Any, place: str) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        contents.add(place, leaf)
        shape, dtype = list(leaf.shape), str(leaf.dtype)
        if is_sharded(leaf):
            # For each dimension of the mesh, the one along which it shards the tensor; None where it has copies.
            return (_SHARDED, shape, dtype, [getattr(placement, "dim", None) for placement in leaf.placements])
        return (_TENSOR, shape, dtype, leaf.device.type)

    return _with_leaves(value, header_of), contents


def attach_tensors(
    skeleton: Any, own: dict[str, Any], mesh: Callable[[], DeviceMesh]
) -> tuple[Any, DetachedTensors]:
    """The skeleton with tensors to receive into, in the same order, the model's own (by name) where they fit."""
    contents = DetachedTensors()
    known = {f"model.{name}": value for name, value in own.items()}

    def tensor_of(leaf: Any, place: str) -> Any:
        if not _is_header(leaf):
            return leaf
        tensor = _receiver(leaf, known.get(place), mesh)
        contents.add(place, tensor)
        return tensor

    return _with_leaves(skeleton, tensor_of), contents


def with_plain_numbers(state: dict[str, Any]) -> dict[str, Any]:
    """The state, NumPy's numbers in it as Python's own: rates are often such, and checkpoints cannot hold them."""

    def plain(leaf: Any, _: str) -> Any:
        is_of_numpy = type(leaf).__module__ == "numpy" and getattr(leaf, "ndim", None) == 0
        return leaf.item() if is_of_numpy else leaf

    copied: dict[str, Any] = _with_leaves(state, plain)
    return copied


def _with_leaves(value: Any, to: Callable[[Any, str], Any], place: str = "") -> Any:
    """The same containers, with what this makes of each leaf and its place."""
    within = f"{place}." if place else ""
    if isinstance(value, dict):
        made = {key: _with_leaves(item, to, f"{within}{key}") for key, item in value.items()}
        # Some schedules ask their milestones for what only a Counter can tell.
        return type(value)(made) if isinstance(value, Counter | OrderedDict) else made
    if isinstance(value, list | tuple) and not _is_header(value):
        items = [_with_leaves(item, to, f"{within}{index}") for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return to(value, place)


def _is_header(value: Any) -> bool:
    """Whether it stands for a tensor."""
    kind = value[0] if isinstance(value, tuple) and len(value) == 4 else None
    return isinstance(kind, str) and kind in (_TENSOR, _SHARDED)


def _receiver(header: Any, known: Any, mesh: Callable[[], DeviceMesh]) -> torch.Tensor:
    kind, shape, name, where = header
    fits = isinstance(known, torch.Tensor) and list(known.shape) == shape and str(known.dtype) == name
    fits = fits and is_sharded(known) == (kind == _SHARDED)
    if fits:
        own: torch.Tensor = known if kind == _SHARDED else known.detach()
        return own
    dtype = getattr(torch, name.removeprefix("torch."))
    if kind == _TENSOR:
        return torch.empty(shape, dtype=dtype, device=where)
    from torch.distributed.tensor import Replicate, Shard, empty

    placements = [Replicate() if dimension is None else Shard(dimension) for dimension in where]
    return empty(*shape, dtype=dtype, device_mesh=mesh(), placements=placements)
