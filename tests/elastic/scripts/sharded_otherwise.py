"""Prints what is said to scripts that distribute their models in ways that are not supported."""

from __future__ import annotations

import json

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from freetrain import elastic
from freetrain.errors import InputError


def said_to(make):
    try:
        make()
    except InputError as error:
        return error.what
    return ""


def main():
    mesh = elastic.node_mesh()

    def looped(module, **options):
        elastic.Loop(module, torch.optim.SGD(module.parameters(), 0.1), 8, elastic.FixedBatch(2), **options)

    def of_mesh(mesh):
        return fully_shard(torch.nn.Linear(2, 2), mesh=mesh)

    def scaled():
        module = of_mesh(mesh)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        elastic.Loop(module, optimizer, 8, elastic.FixedBatch(2), scaling=elastic.AdaScale(optimizer, 2))

    def run():
        module = of_mesh(mesh)
        elastic.Run(module, torch.optim.SGD(module.parameters(), 0.1), 8, elastic.FixedBatch(2))

    hybrid = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicas", "shards"))
    facts = {
        "sharded": said_to(lambda: looped(of_mesh(mesh))),
        "hybrid": said_to(lambda: looped(of_mesh(hybrid))),
        "tensor": said_to(lambda: looped(parallelize_module(torch.nn.Linear(2, 2), mesh, ColwiseParallel()))),
        "scaler": said_to(lambda: looped(of_mesh(mesh), also={"scaler": torch.amp.GradScaler("cpu")})),
        "scaling": said_to(scaled),
        "run": said_to(run),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
