"""The workers of this node, over which a script may shard its model."""

from __future__ import annotations

import os
import secrets
import time
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

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
from freetrain.elastic.worlds.device import device
from freetrain.elastic.worlds.guarded_store import GuardedStore, StoreServer
from freetrain.elastic.worlds.replica import this_replica
from freetrain.errors import FreetrainError, InputError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_LOOK_S = 0.01
_STORE_TIMEOUT = timedelta(seconds=300)


@lru_cache(maxsize=1)
def node_mesh() -> DeviceMesh:
    """The workers of this node: ``fully_shard(model, mesh=elastic.node_mesh())``.

    They become torch's default process group, and stay it: each has a shard of the model, and the node comes and
    goes as one. Without an agent it is this process alone. All workers of a node have to call it.
    """
    from torch.distributed.device_mesh import init_device_mesh

    if is_server():
        error = InputError(
            "a sharded model's gradients are added up over the nodes by the workers, not by servers.",
            "Leave out --servers.",
        )
        raise as_exit(error)
    if not this_replica().is_joined:
        try:
            _join()
        except FreetrainError as error:
            raise as_exit(error) from None
    return init_device_mesh(device().type, (this_replica().shards,))


def _join() -> None:
    """Meet the other workers of this node.

    Raises:
        InputError: they do not come, or torch has a process group already.
    """
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
    backend = "gloo" if device().type == "cpu" else "cpu:gloo,cuda:nccl"
    this_replica().join(name, shard, shards, store, backend, timeouts.start_timeout_s)


def _meet(directory: TrainerDirectory, name: str, shard: int, patience_s: float) -> dist.Store:
    """The store of this node's workers, which the first of them opens."""
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
