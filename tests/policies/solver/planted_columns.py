"""What may come instead of columns; each is asked as ``freetrain.policies.solver.columns.solve``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

import numpy as np

from freetrain.core.problem import Counts
from freetrain.policies.solver.answer import Answer
from freetrain.policies.solver.bidders import Bidders

Rows = Sequence[Sequence[int]]
Clock = Callable[[], float]


def _nobody(bidders: Bidders, rows: Rows) -> Counts:
    return np.zeros((sum(map(len, rows)), len(bidders.capacity)), dtype=np.int64)


def sleeps(bidders: Bidders, rows: Rows, *, left_s: Clock) -> Answer:
    while True:
        time.sleep(3600.0)


def crashes(bidders: Bidders, rows: Rows, *, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fails(bidders: Bidders, rows: Rows, *, left_s: Clock) -> Answer:
    raise RuntimeError("licence of the moon expired")


def gives_more_than_there_is(bidders: Bidders, rows: Rows, *, left_s: Clock) -> Answer:
    return Answer(_nobody(bidders, rows) + bidders.capacity, True, 1.0, "")


def gives_nothing_in_time(bidders: Bidders, rows: Rows, *, left_s: Clock) -> Answer:
    return Answer(_nobody(bidders, rows), False, 1e18, "its time had run out", out_of_time=True)


def calls_waste_optimal(bidders: Bidders, rows: Rows, *, left_s: Clock) -> Answer:
    return Answer(_nobody(bidders, rows), True, 1e18, "")
