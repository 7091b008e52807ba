"""Checks of a device by itself: it computes, and copies arrive whole."""

from __future__ import annotations

import time
from typing import Any

import torch

from freetrain.elastic.gpu_check.outcomes import NotPossibleError
from freetrain.elastic.training.state_copy import StateCopy
from freetrain.elastic.worlds.health import fault_of

_COPIED_BYTES = 256 << 20


def health(device: torch.device) -> str:
    """What every worker looks at before it joins."""
    fault = fault_of(device)
    assert fault is None, fault.reason
    if device.type == "cpu":
        return "a product and copies are right"
    free, total = torch.cuda.mem_get_info(device)
    return f"a product and copies are right; {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"


def copies(device: torch.device) -> str:
    """Pinned copies on a stream of their own, as data loaders make them, arrive whole beside computing."""
    if device.type == "cpu":
        raise NotPossibleError("the CPU has no streams")
    pattern = torch.arange(_COPIED_BYTES // 8).pin_memory()
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    busy = torch.randn(2048, 2048, device=device)
    begun_s = time.perf_counter()
    with torch.cuda.stream(stream):
        there = pattern.to(device, non_blocking=True)
        back = torch.empty_like(pattern).pin_memory()
        back.copy_(there, non_blocking=True)
    for _ in range(10):
        busy = (busy @ busy).clamp(-1, 1)
    stream.synchronize()
    elapsed_s = time.perf_counter() - begun_s
    assert torch.equal(back, pattern), "copies on a stream did not arrive whole"
    return f"{2 * _COPIED_BYTES / elapsed_s / 1e9:.1f} GB/s there and back, beside products"


def state_copy(device: torch.device) -> str:
    """The copy of the state that checkpoints are written from."""
    tensors = {"a": torch.randn(1000, 1000, device=device), "b": torch.randn(7, device=device).bfloat16()}
    copier = StateCopy()
    copier.of(tensors)
    begun_s = time.perf_counter()
    copied = copier.of(tensors)
    elapsed_s = time.perf_counter() - begun_s
    for name, tensor in tensors.items():
        assert copied[name].device.type == "cpu", f"{name} is not in the computer's memory"
        assert torch.equal(copied[name], tensor.cpu()), f"{name} differs"
    return f"{4_000_000 / elapsed_s / 1e9:.1f} GB/s into the computer's memory"
