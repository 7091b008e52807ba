"""The device of this worker."""

from __future__ import annotations

import os

import torch

from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE


def device() -> torch.device:
    """This worker's GPU, or the CPU where there is none; makes it the current one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    index = int(os.environ.get(LOCAL_RANK_VARIABLE, "0")) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def device_of(module: torch.nn.Module) -> torch.device:
    """Where the model is: the device of its first parameter."""
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def backend_for(module: torch.nn.Module) -> str:
    """Gloo for control always; NCCL for what lives on a GPU."""
    on_gpu = any(tensor.is_cuda for tensor in module.parameters())
    return "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
