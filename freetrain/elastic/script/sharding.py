"""Models that the script shards over the workers of its node with ``fully_shard``."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from freetrain.elastic.errors import as_exit
from freetrain.elastic.membership.identity import (
    REPLICA_VARIABLE,
    is_server,
    new_id,
    use_interface_of_this_address,
)
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE, LOCAL_WORLD_SIZE_VARIABLE
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.training.tensors import is_sharded
from freetrain.elastic.worlds.device import backend_for, device
from freetrain.elastic.worlds.guarded_store import GuardedStore, StoreServer
from freetrain.elastic.worlds.replica import this_replica
from freetrain.errors import FreetrainError, InputError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# The newer name and the older one.
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_LOOK_S = 0.01
_STORE_TIMEOUT = timedelta(seconds=300)


@lru_cache(maxsize=1)
def node_mesh() -> DeviceMesh:
    """The workers of this node: ``fully_shard(model, mesh=elastic.node_mesh())``.

    They become torch's default process group, and stay it: each has a shard of the model, and the node comes and
    goes as one. Without an agent it is this process alone. All workers of a node have to call it.
    """
    # Imported here: it brings DTensor along, and most scripts do not shard.
    from torch.distributed.device_mesh import init_device_mesh

    if not this_replica().is_joined:
        try:
            _join()
        except FreetrainError as error:
            raise as_exit(error) from None
    return init_device_mesh(device().type, (this_replica().shards,))


def _join() -> None:
    """Meet the other workers of this node; raises InputError if they do not come, or cannot be met."""
    if is_server():
        raise InputError(
            "a sharded model's gradients are added up over the nodes by the workers, not by servers.",
            "Leave out --servers.",
        )
    if dist.is_initialized():
        raise InputError(
            "elastic.node_mesh() was called after torch.distributed had been initialised.",
            "Leave out init_process_group: node_mesh() does it for the workers of the node.",
        )
    timeouts = Timeouts.from_environment()
    use_interface_of_this_address()
    name, shards = os.environ.get(REPLICA_VARIABLE, ""), int(os.environ.get(LOCAL_WORLD_SIZE_VARIABLE, "1"))
    root = trainer_from_environment()
    store: dist.Store
    if not name or root is None:
        name, shard, shards, store = new_id(), 0, 1, dist.HashStore()
    else:
        shard = int(os.environ[LOCAL_RANK_VARIABLE])
        store = _meet(TrainerDirectory.open(root), name, shard, timeouts.start_timeout_s)
    this_replica().join(name, shard, shards, store, backend_for(device()), timeouts.start_timeout_s)


def _meet(directory: TrainerDirectory, name: str, shard: int, patience_s: float) -> dist.Store:
    """The store of this node's workers, which the first of them opens."""
    # Before they meet: if one fails from here on, the agent ends the others, which would wait.
    directory.bind(name)
    if shard == 0:
        nonce = secrets.token_hex(16)
        word = directory.secret.derive(nonce)
        port = StoreServer(words=[word]).port
        directory.call_replica(name, {"port": port, "nonce": nonce})
        return GuardedStore("127.0.0.1", port, word, _STORE_TIMEOUT)
    until_s = time.monotonic() + patience_s
    while (meeting := directory.meeting_of(name)) is None:
        if time.monotonic() > until_s:
            raise InputError(
                f"the first worker of this node has not called elastic.node_mesh() within {patience_s:g} s.",
                "All workers of a node have to call it.",
            )
        time.sleep(_LOOK_S)
    word = directory.secret.derive(str(meeting["nonce"]))
    return GuardedStore("127.0.0.1", int(meeting["port"]), word, _STORE_TIMEOUT)


def check_sharding(module: torch.nn.Module, also: Iterable[object] = ()) -> None:
    """Check that a model, if it is sharded, is sharded over the workers of the node, and what it is used with.

    Raises InputError if it is sharded otherwise, or something that is carried along cannot be used with it.
    """
    replica = this_replica()
    sharded = [parameter for parameter in module.parameters() if is_sharded(parameter)]
    managed = {id(parameter) for part in _sharded_modules(module) for parameter in part.parameters()}
    if sharded and not replica.is_joined:
        raise InputError(
            "the model is sharded over process groups that elastic trainings do not know.",
            "Shard it over the workers of the node: fully_shard(model, mesh=elastic.node_mesh()).",
        )
    if any(
        id(parameter) not in managed or tuple(parameter.device_mesh.shape) != (replica.shards,)
        for parameter in sharded
    ):
        raise InputError(
            "some parameters are distributed otherwise than by fully_shard over all workers of the node, for "
            "example by tensor parallelism.",
            "Use fully_shard(model, mesh=elastic.node_mesh()) alone.",
        )
    if sharded and any(isinstance(item, torch.amp.GradScaler) for item in also):
        raise InputError(
            "a GradScaler cannot be used with a sharded model: each worker would look for infinite gradients in "
            "its own shard, and leave out other updates than the others.",
            "Use bfloat16, which needs none.",
        )
    if not all(hasattr(part, "set_custom_reduce_scatter") for part in _sharded_modules(module)):
        raise InputError(
            f"torch {torch.__version__} cannot weigh the gradients of sharded models.", "Use torch 2.13 or newer."
        )


def weigh_shards(module: torch.nn.Module, weight: Callable[[], float | None]) -> bool:
    """Let the workers of the node add up their gradients, each times its weight, in place of a mean of them.

    The weight is None outside of steps, where it is a mean as always. Returns whether there is anything to add up:
    a model that is sharded over several workers.
    """
    if this_replica().shards == 1:
        return False
    parts = list(_sharded_modules(module))
    for part in parts:
        part.set_custom_reduce_scatter(_WeightedSum(weight))
        # FSDP would divide by the number of workers, or have NCCL do so within the sum.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    return bool(parts)


def _sharded_modules(module: torch.nn.Module) -> Iterator[Any]:
    """The parts of a model to which ``fully_shard`` was applied; does not import it."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and hasattr(fsdp, "FSDPModule"):
        yield from (part for part in module.modules() if isinstance(part, fsdp.FSDPModule))


class _WeightedSum:
    """The way to reduce gradients that ``fully_shard`` is given."""

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
