"""Models that the script has sharded over the workers of its node with ``fully_shard``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.training.shards import is_sharded, sharded_modules
from freetrain.elastic.worlds.replica import this_replica
from freetrain.errors import InputError

_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
"""The newer name and the older one."""


def check_sharding(module: torch.nn.Module, also: Iterable[object] = ()) -> None:
    """Whether the model is sharded over the workers of the node, if at all.

    Args:
        module: the model.
        also: what is carried along with it.

    Raises:
        InputError: it is not, or something cannot be done with sharded models.
    """
    replica = this_replica()
    sharded = [each for each in module.parameters() if is_sharded(each)]
    managed = {id(each) for part in sharded_modules(module) for each in part.parameters()}
    if sharded and not replica.is_joined:
        raise InputError(
            "the model is sharded over process groups that elastic trainings do not know.",
            "Shard it over the workers of the node: fully_shard(model, mesh=elastic.node_mesh()).",
        )
    if any(id(each) not in managed or tuple(each.device_mesh.shape) != (replica.shards,) for each in sharded):
        raise InputError(
            "some parameters are distributed otherwise than by fully_shard over all workers of the node, for "
            "example by tensor parallelism.",
            "Use fully_shard(model, mesh=elastic.node_mesh()) alone.",
        )
    if sharded and any(isinstance(each, torch.amp.GradScaler) for each in also):
        raise InputError(
            "a GradScaler cannot be used with a sharded model: each worker would look for infinite gradients in "
            "its own shard, and leave out other updates than the others.",
            "Use bfloat16, which needs none.",
        )
    if not all(hasattr(each, "set_custom_reduce_scatter") for each in sharded_modules(module)):
        raise InputError(
            f"torch {torch.__version__} cannot weigh the gradients of sharded models.", "Use torch 2.13 or newer."
        )


def weigh_shards(module: torch.nn.Module, weight: Callable[[], float | None]) -> bool:
    """Let the workers of the node add up their gradients, each times its weight, in place of a mean of them.

    Args:
        module: the model.
        weight: of this worker; None outside of steps, where it is a mean as always.

    Returns:
        Whether there is anything to add up: a model that is sharded over several workers.
    """
    if this_replica().shards == 1:
        return False
    parts = list(sharded_modules(module))
    for part in parts:
        part.set_custom_reduce_scatter(_WeightedSum(weight))
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    return bool(parts)


class _WeightedSum:
    """What ``fully_shard`` takes for its way to reduce gradients."""

    def __init__(self, weight: Callable[[], float | None]) -> None:
        self._weight = weight

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory for what is reduced."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        """Add up all workers' gradients, of which each keeps its shard."""
        weight = self._weight()
        if weight == 0.0:
            input_tensor.zero_()  # a repeated sample's may be infinite
        else:
            input_tensor.mul_(1.0 / group.size() if weight is None else weight)
        return _reduce_scatter(output_tensor, input_tensor, dist.ReduceOp.SUM, group, async_op)
