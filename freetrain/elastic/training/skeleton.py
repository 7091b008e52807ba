"""A captured state without its tensors, which travel apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from freetrain.elastic.training.shards import empty, is_sharded, layout

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

_TENSOR = "freetrain.tensor"
_SHARDED = "freetrain.sharded"


@dataclass
class Contents:
    """The tensors of a skeleton, by their places in the state.

    Attributes:
        tensors: that all ranks have the same of.
        shards: of which each worker of a replica has a part.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    shards: dict[str, DTensor] = field(default_factory=dict)

    def add(self, place: str, tensor: torch.Tensor) -> None:
        """Note it under this name, or under a similar one where two places are written alike."""
        while place in self.tensors or place in self.shards:
            place += "'"
        if is_sharded(tensor):
            self.shards[place] = tensor
        else:
            self.tensors[place] = tensor


def hollow(value: Any, contents: Contents, place: str = "") -> Any:
    """The value with its tensors taken out."""
    if is_sharded(value):
        contents.add(place, value)
        return (_SHARDED, list(value.shape), str(value.dtype), layout(value))
    if isinstance(value, torch.Tensor):
        contents.add(place, value)
        return (_TENSOR, list(value.shape), str(value.dtype), value.device.type)
    if isinstance(value, dict):
        return {key: hollow(item, contents, _within(place, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [hollow(item, contents, _within(place, index)) for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return value


def fill(skeleton: Any, contents: Contents, own: dict[str, Any], mesh: Callable[[], DeviceMesh]) -> Any:
    """The reverse: with tensors to receive into, the model's own ones where they fit.

    Args:
        skeleton: as :func:`hollow` made it.
        contents: where the tensors are noted, in its order.
        own: the model's tensors by name.
        mesh: over which sharded tensors are.
    """
    return _fill(skeleton, contents, {f"model.{name}": value for name, value in own.items()}, mesh, "")


def _fill(
    skeleton: Any, contents: Contents, own: dict[str, Any], mesh: Callable[[], DeviceMesh], place: str
) -> Any:
    if isinstance(skeleton, tuple) and len(skeleton) == 4 and skeleton[0] in (_TENSOR, _SHARDED):
        return _receiver(skeleton, contents, own.get(place), mesh, place)
    if isinstance(skeleton, dict):
        return {key: _fill(item, contents, own, mesh, _within(place, key)) for key, item in skeleton.items()}
    if isinstance(skeleton, list | tuple):
        items = [_fill(item, contents, own, mesh, _within(place, index)) for index, item in enumerate(skeleton)]
        return items if isinstance(skeleton, list) else tuple(items)
    return skeleton


def _receiver(
    what: Any, contents: Contents, known: Any, mesh: Callable[[], DeviceMesh], place: str
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
