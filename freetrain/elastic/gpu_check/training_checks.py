"""Checks of trainings of one rank: they learn the same as on the CPU, without mixed precision or compiling."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from freetrain import elastic

_STEPS = 20


def _model(device: torch.device) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
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
    model, optimizer = _model(device)
    losses: list[float] = []
    batch = elastic.FixedBatch(16, at_most_per_pass=8)
    with (
        tempfile.TemporaryDirectory() as folder,
        elastic.Run(
            model, optimizer, 16 * _STEPS, batch, trainer=Path(folder), on_step=lambda one: losses.append(one.loss)
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
    model, optimizer = _model(device)
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
    mixed = _loop(device, torch.amp.GradScaler(device.type, init_scale=256.0), torch.autocast(device.type, kind))
    assert math.isclose(plain, mixed, rel_tol=0.2), f"the last loss is {mixed:g}, and {plain:g} without"
    return f"autocast ({kind}) and GradScaler; last loss {mixed:.4g}, without {plain:.4g}"


def compiled(device: torch.device) -> str:
    """``elastic.Loop`` with a compiled model learns what it learns without."""
    scaler, autocast = torch.amp.GradScaler(device.type, enabled=False), torch.autocast(device.type, enabled=False)
    plain = _loop(device, scaler, autocast)
    backend = "inductor" if device.type == "cuda" else "eager"
    compiled = _loop(device, scaler, autocast, lambda model: torch.compile(model, backend=backend))
    assert math.isclose(plain, compiled, rel_tol=0.02), f"the last loss is {compiled:g}, and {plain:g} without"
    return f"torch.compile ({backend}); last loss {compiled:.4g}, without {plain:.4g}"
