"""Solvers as HiGHS can be at its worst; each is asked as ``freetrain.policies.solver.highs.solve``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from freetrain.core.problem import Counts
from freetrain.policies.solver.answer import Answer
from freetrain.policies.solver.menu import Menu

Menus = Sequence[Menu]
Clock = Callable[[], float]


def _nobody(menus: Menus, capacity: Sequence[int]) -> Counts:
    return np.zeros((len(menus), len(capacity)), dtype=np.int64)


def sleeps(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    while True:
        time.sleep(3600.0)


def computes(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> int:
    return sum(range(10**18))


def exits(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    os._exit(0)


def crashes(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fails(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    raise RuntimeError("licence of the moon expired")


def answers_none(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Any:
    return {"counts": "all of them"}


def answers_text(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Any:
    return Answer("all of them", True, 1.0, "optimal")  # type: ignore[arg-type]


def gives_fractions(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Any:
    return Answer(_nobody(menus, capacity) + 0.5, True, 1.0, "optimal")


def gives_the_wrong_shape(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity)[1:], True, 1.0, "optimal")


def gives_less_than_nothing(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity) - 1, True, 1.0, "optimal")


def gives_more_than_there_is(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity) + np.array(capacity), True, 1.0, "optimal")


def gives_endlessly(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity) + (1 << 62), True, 1.0, "optimal")


def gives_all_to_one(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    counts = _nobody(menus, capacity)
    counts[0] = capacity
    return Answer(counts, True, 1e18, "optimal")


def lets_somebody_migrate(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    """Whoever has nodes of one class gets as many of another."""
    counts = _nobody(menus, capacity)
    row = next(row for row, menu in enumerate(menus) if any(menu.held))
    column = int(np.argmin(menus[row].held))
    counts[row, column] = max(menus[row].held)
    return Answer(counts, True, 1e18, "optimal")


def wastes(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity), False, 1e18, "Time limit reached", out_of_time=True)


def calls_waste_optimal(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity), True, 1e18, "Optimal")


def claims_a_bound_that_is_none(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(_nobody(menus, capacity), True, float("nan"), "Optimal")


def _best(menus: Menus, capacity: Sequence[int], left_s: Clock) -> Answer:
    from freetrain.policies.solver import highs

    return highs.solve(menus, capacity, left_s=left_s)


def claims_too_low_a_bound(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    best = _best(menus, capacity, left_s)
    return Answer(best.counts, True, best.bound * 0.9, "Optimal")


def stops_at_the_best(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    best = _best(menus, capacity, left_s)
    return Answer(best.counts, False, best.bound * 1.1, "Time limit reached", out_of_time=True)


def finds_nothing_in_time(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(None, False, float("inf"), "Time limit reached", out_of_time=True)


def never_solves(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return Answer(None, False, float("inf"), "Infeasible")


def needs_presolve_off(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    return never_solves(menus, capacity, presolve, left_s=left_s) if presolve else _best(menus, capacity, left_s)


def loses_what_it_found(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    lost = Answer(None, True, 1.0, "Optimal")
    return lost if presolve else _best(menus, capacity, left_s)


def hangs_at_the_second_try(menus: Menus, capacity: Sequence[int], presolve: bool, *, left_s: Clock) -> Answer:
    refused = never_solves(menus, capacity, presolve, left_s=left_s)
    return refused if presolve else sleeps(menus, capacity, presolve, left_s=left_s)
