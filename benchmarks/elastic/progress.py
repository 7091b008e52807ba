"""What reporting progress costs: timed by itself, and as the difference between trainings with and without it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from freetrain import elastic
from freetrain.elastic.on_disk.progress import ProgressWriter

STEP_S = 0.01
LINE_EVERY_S = 5.0
"""How often a line is written by default."""

_BLOCKS, _STEPS_PER_BLOCK, _LINES_PER_BLOCK = 20, 5000, 200
_PAIRS, _STEPS_PER_RUN, _WARM_UP_STEPS = 10, 200, 20


@dataclass(frozen=True, slots=True)
class ProgressCost:
    """The cost in seconds, every measurement of it.

    Attributes:
        noted_s: per step, to note it and to ask whether a line is due.
        line_s: per line, to make and append it; on the file system of temporary files.
        steps_with_s: median step time of each training with progress; a line every 0.1 s, not every 5 s.
        steps_without_s: the same of trainings without, one after each of those with.
    """

    noted_s: tuple[float, ...]
    line_s: tuple[float, ...]
    steps_with_s: tuple[float, ...]
    steps_without_s: tuple[float, ...]

    @property
    def timed_shares(self) -> list[float]:
        """Share of a step's time as timed by itself: notes, and lines at their usual rate."""
        lines_per_step = STEP_S / LINE_EVERY_S
        return [
            (noted_s + lines_per_step * line_s) / STEP_S
            for noted_s, line_s in zip(self.noted_s, self.line_s, strict=True)
        ]

    @property
    def differing_shares(self) -> list[float]:
        """Share of a step's time by which each training with progress was slower than the one without after it."""
        return [
            with_s / without_s - 1
            for with_s, without_s in zip(self.steps_with_s, self.steps_without_s, strict=True)
        ]


def measure_progress() -> ProgressCost:
    """Take both measures."""
    with tempfile.TemporaryDirectory(prefix="bench-elastic-") as folder:
        timed = [_time_block(ProgressWriter(Path(folder) / "progress.jsonl")) for _ in range(_BLOCKS)]
    pairs = [(_train(nullcontext()), _train(_silenced())) for _ in range(_PAIRS)]
    noted_s, line_s = zip(*timed, strict=True)
    with_s, without_s = zip(*pairs, strict=True)
    return ProgressCost(noted_s, line_s, with_s, without_s)


def _time_block(progress: ProgressWriter) -> tuple[float, float]:
    """Seconds per step noted and per line written."""

    def note() -> None:
        # The clock is read as often as a step reads it for its figures.
        for _ in range(3):
            time.perf_counter()
        progress.add(64, 1e-4, 1e-3)
        assert not progress.due

    def write() -> None:
        progress.add(64, 1e-4, 1e-3)
        progress.write_rate(generation=7, world=4, step=123_456, epoch=1, samples_done=7_901_184)

    return _seconds_each(note, _STEPS_PER_BLOCK), _seconds_each(write, _LINES_PER_BLOCK)


def _seconds_each(work: Callable[[], None], times: int) -> float:
    since_s = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - since_s) / times


class _Silent(ProgressWriter):
    """Reports nothing."""

    def start(self) -> None:
        pass

    def add(self, samples: int, wait_s: float, exposed_s: float) -> None:
        pass

    @property
    def due(self) -> bool:
        return False

    def _write(self, **document: Any) -> None:
        pass


def _silenced() -> AbstractContextManager[object]:
    return mock.patch("freetrain.elastic.training.records.ProgressWriter", _Silent)


def _train(how: AbstractContextManager[object]) -> float:
    """Median step time of a training alone in its world, whose steps are busy for a fixed time."""
    model = torch.nn.Linear(4, 1)
    ended_s: list[float] = []
    steps = _WARM_UP_STEPS + _STEPS_PER_RUN
    with (
        how,
        elastic.Run(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            steps,
            elastic.FixedBatch(1),
            progress_every_s=0.1,
            on_step=lambda _: ended_s.append(time.perf_counter()),
        ) as run,
    ):
        for step in run.steps():
            for ids in step:
                # Sleeping would be less exact than what is to be measured.
                until_s = time.perf_counter() + STEP_S
                step.backward(run.model(ids.float().expand(1, 4)).mean())
                while time.perf_counter() < until_s:
                    pass
    return statistics.median(after - before for before, after in pairwise(ended_s))
