"""What may come instead of columns; each is asked as ``freetrain.policies.solver.branch_and_price.solve``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

import numpy as np

from freetrain.core.problem import Counts
from freetrain.policies.solver.guests import SolverAnswer
from freetrain.policies.solver.trainer_types import TrainerTypes

Rows = Sequence[Sequence[int]]
Clock = Callable[[], float]


def _nobody(trainers: TrainerTypes, rows: Rows) -> Counts:
    return np.zeros((sum(map(len, rows)), len(trainers.capacity)), dtype=np.int64)


def sleeps(trainers: TrainerTypes, rows: Rows, *, left_s: Clock) -> SolverAnswer:
    while True:
        time.sleep(3600.0)


def crashes(trainers: TrainerTypes, rows: Rows, *, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fails(trainers: TrainerTypes, rows: Rows, *, left_s: Clock) -> SolverAnswer:
    raise RuntimeError("licence of the moon expired")


def gives_more_than_there_is(trainers: TrainerTypes, rows: Rows, *, left_s: Clock) -> SolverAnswer:
    return SolverAnswer(_nobody(trainers, rows) + trainers.capacity, True, 1.0, "")


def gives_nothing_in_time(trainers: TrainerTypes, rows: Rows, *, left_s: Clock) -> SolverAnswer:
    return SolverAnswer(_nobody(trainers, rows), False, 1e18, "its time had run out", out_of_time=True)


def calls_waste_optimal(trainers: TrainerTypes, rows: Rows, *, left_s: Clock) -> SolverAnswer:
    return SolverAnswer(_nobody(trainers, rows), True, 1e18, "")
