"""Checks of one device: it computes and copies, one rank learns, and worlds of one rank leave nothing behind."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from freetrain import elastic
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.training.checkpoints import StateCopy
from freetrain.elastic.worlds.device import fault_of
from freetrain.elastic.worlds.groups import abort_nccl
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.world import World

_COPIED_BYTES = 256 << 20
_STEPS = 20
_WORLDS = 20
_ABORT_S = 10.0


class NotPossibleError(Exception):
    """This cannot be tried here; the text says why."""


def health(device: torch.device) -> str:
    """The check that every worker makes before it joins."""
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
    # The first copy takes new memory, which costs more than copying.
    copier.of(tensors)
    begun_s = time.perf_counter()
    copied = copier.of(tensors)
    elapsed_s = time.perf_counter() - begun_s
    for name, tensor in tensors.items():
        assert copied[name].device.type == "cpu", f"{name} is not in the computer's memory"
        assert torch.equal(copied[name], tensor.cpu()), f"{name} differs"
    return f"{4_000_000 / elapsed_s / 1e9:.1f} GB/s into the computer's memory"


def small_model(device: torch.device) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model with its optimizer, of the same parameters in each process and on each device."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
    model = torch.nn.Sequential(*layers).to(device)
    return model, torch.optim.AdamW(model.parameters(), 0.01)


def _batch(ids: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.arange(32)
    inputs = torch.sin((ids[:, None] + 1) * (places + 1) / 50.0).to(device)
    return inputs, inputs.sum(1, keepdim=True)


def _trained(device: torch.device) -> float:
    """The last loss of a training of one rank."""
    model, optimizer = small_model(device)
    losses: list[float] = []
    batch = elastic.FixedBatch(16, at_most_per_pass=8)
    with (
        tempfile.TemporaryDirectory() as folder,
        elastic.Run(
            model,
            optimizer,
            16 * _STEPS,
            batch,
            trainer=Path(folder),
            on_step=lambda done: losses.append(done.loss),
        ) as run,
    ):
        for step in run.steps():
            for ids in step:
                inputs, targets = _batch(ids, device)
                step.backward(torch.nn.functional.mse_loss(run.model(inputs), targets))
    return losses[-1]


def one_rank(device: torch.device) -> str:
    """``elastic.Run`` learns what it learns on the CPU."""
    here, on_cpu = _trained(device), _trained(torch.device("cpu"))
    assert math.isclose(here, on_cpu, rel_tol=0.02), f"the last loss is {here:g}, and {on_cpu:g} on the CPU"
    return f"{_STEPS} steps of elastic.Run; last loss {here:.4g}, on the CPU {on_cpu:.4g}"


def _loop(
    device: torch.device, scaler: Any, autocast: Any, wrap: Callable[[Any], Any] = lambda model: model
) -> float:
    """The last loss of a script that keeps its loop."""
    model, optimizer = small_model(device)
    called, last = wrap(model), float("nan")
    with (
        tempfile.TemporaryDirectory() as folder,
        elastic.Loop(
            model, optimizer, 16 * _STEPS, elastic.FixedBatch(16), also={"scaler": scaler}, trainer=Path(folder)
        ) as run,
    ):
        for _ in run.epochs():
            for ids in run.batches:
                inputs, targets = _batch(ids, device)
                with autocast:
                    loss = torch.nn.functional.mse_loss(called(inputs), targets)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                last = float(loss.detach())
    return last


def mixed_precision(device: torch.device) -> str:
    """``elastic.Loop`` with autocast and GradScaler learns about what it learns without."""
    plain = _loop(
        device, torch.amp.GradScaler(device.type, enabled=False), torch.autocast(device.type, enabled=False)
    )
    kind = torch.float16 if device.type == "cuda" else torch.bfloat16
    # With the default of 65,536 gradients may overflow in the first steps, which are then left out.
    mixed = _loop(device, torch.amp.GradScaler(device.type, init_scale=256.0), torch.autocast(device.type, kind))
    assert math.isclose(plain, mixed, rel_tol=0.2), f"the last loss is {mixed:g}, and {plain:g} without"
    return f"autocast ({kind}) and GradScaler; last loss {mixed:.4g}, without {plain:.4g}"


def compiled(device: torch.device) -> str:
    """``elastic.Loop`` with a compiled model learns what it learns without."""
    scaler, autocast = torch.amp.GradScaler(device.type, enabled=False), torch.autocast(device.type, enabled=False)
    plain = _loop(device, scaler, autocast)
    # On the CPU inductor needs a C++ compiler, which a node need not have.
    backend = "inductor" if device.type == "cuda" else "eager"
    compiled = _loop(device, scaler, autocast, lambda model: torch.compile(model, backend=backend))
    assert math.isclose(plain, compiled, rel_tol=0.02), f"the last loss is {compiled:g}, and {plain:g} without"
    return f"torch.compile ({backend}); last loss {compiled:.4g}, without {plain:.4g}"


def _world(number: int, backend: str) -> tuple[World, Any]:
    store = StoreServer(words=[f"world {number}"])
    generation = Generation(number, ("me",), this_host(), "localhost", store.port, "", "start")
    world = World(generation, "me", f"world {number}", backend, 10.0, lambda: [store.port])
    world.form(lambda: False)
    return world, store


def memory(device: torch.device) -> str:
    """Memory that a world leaves behind on the device."""
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    used: list[int] = []
    for number in range(1, _WORLDS + 1):
        world, _store = _world(number, backend)
        tensor = torch.ones(1 << 20, device=device)
        world.add_up([tensor])
        del tensor
        world.leave()
        if device.type == "cuda":
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info(device)
            used.append(total - free)
    if not used:
        return f"{_WORLDS} worlds of one rank formed and left"
    # Since the fifth: the first worlds fill caches of torch's and NCCL's, which stay.
    grown = used[-1] - used[_WORLDS // 4]
    assert grown < 0.05 * used[_WORLDS // 4], f"{grown / 2**20:.0f} MiB more after {_WORLDS} worlds"
    in_use = f"{used[-1] / 2**20:.0f} MiB of the device in use after {_WORLDS} worlds"
    return f"{in_use}, {grown / 2**20:+.0f} since the fifth"


def abort(device: torch.device) -> str:
    """A communicator can be aborted, and another one formed in the same process."""
    if device.type == "cpu":
        raise NotPossibleError("gloo has nothing to abort: its connections are cut")
    world, _store = _world(1, "cpu:gloo,cuda:nccl")
    world.add_up([torch.ones(1, device=device)])
    begun_s = time.perf_counter()
    abort_nccl([None])
    elapsed_s = time.perf_counter() - begun_s
    assert elapsed_s < _ABORT_S, f"aborting took {elapsed_s:.1f} s"
    world.leave()
    assert not dist.is_initialized(), "the process group is still there"
    world, _store = _world(2, "cpu:gloo,cuda:nccl")
    tensor = torch.ones(1, device=device)
    world.add_up([tensor])
    assert float(tensor) == 1.0, "a sum in the next world is wrong"
    return f"aborted in {elapsed_s:.2f} s, and another world formed"
