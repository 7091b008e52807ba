"""How long a training stands still for a checkpoint: written in the background, and while the training waits."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.elastic.scripts.training import (
    DEVICE_S_VARIABLE,
    OPTIMIZER_VARIABLE,
    PARAMETERS_VARIABLE,
    loss_of,
    make_model,
)
from freetrain import elastic

_EVERY, _CHECKPOINTS = 20, 5
"""A checkpoint every so many steps, and how many."""

PARAMETERS = (25_000_000, 100_000_000)


@dataclass(frozen=True, slots=True)
class CheckpointCost:
    """What the checkpoints of one training cost, the first one left out.

    Attributes:
        parameters: of the model.
        in_background: whether the training went on.
        step_s: median step of the second halves between two checkpoints, when nothing is being written any more.
        first_stall_s: by how much longer the step after which the first checkpoint was taken lasted than that.
        stalls_s: the same of the others.
        written_s: all that each of these cost: by how much longer all steps until the next one lasted.
    """

    parameters: int
    in_background: bool
    step_s: float
    first_stall_s: float
    stalls_s: tuple[float, ...]
    written_s: tuple[float, ...]


def measure_checkpoints(sizes: Sequence[int], optimizer: str) -> Iterator[CheckpointCost]:
    """Train alone in a world, where others would wait for this rank: with each size of model, in both ways."""
    for parameters in sizes:
        for in_background in (False, True):
            yield cost_of(parameters, in_background, _train(parameters, optimizer, in_background))


def _train(parameters: int, optimizer_name: str, in_background: bool) -> list[float]:
    """Seconds from the beginning of each step to that of the next one."""
    os.environ[PARAMETERS_VARIABLE] = str(parameters)
    os.environ[OPTIMIZER_VARIABLE] = optimizer_name
    os.environ[DEVICE_S_VARIABLE] = "0"
    model, optimizer = make_model()
    began_s: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-elastic-") as folder,
        elastic.Run(
            model,
            optimizer,
            _EVERY * (_CHECKPOINTS + 1),
            elastic.FixedBatch(1),
            trainer=Path(folder),
            background_checkpoints=in_background,
        ) as run,
    ):
        for step in run.steps():
            began_s.append(time.perf_counter())
            if step.number % _EVERY == 0 and step.number < run.state.sampler.samples:
                run.checkpoint()
            for ids in step:
                step.backward(loss_of(run.model, ids))
    return [after - before for before, after in pairwise(began_s)]


def cost_of(parameters: int, in_background: bool, steps_s: list[float]) -> CheckpointCost:
    """From the durations of the steps, each until the next one began; a checkpoint is part of every twentieth."""
    rounds = [steps_s[at : at + _EVERY] for at in range(_EVERY - 1, len(steps_s), _EVERY)]
    first, *others = (one for one in rounds if len(one) == _EVERY)
    step_s = statistics.median(one_s for round_s in (first, *others) for one_s in round_s[_EVERY // 2 :])
    return CheckpointCost(
        parameters,
        in_background,
        step_s,
        first[0] - step_s,
        tuple(one[0] - step_s for one in others),
        tuple(sum(one) - _EVERY * step_s for one in others),
    )
