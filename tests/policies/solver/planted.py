"""Solvers as HiGHS can be at its worst; each is asked as ``freetrain.policies.solver.highs.solve``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from freetrain.core.problem import Counts
from freetrain.policies.solver.guests import SolverAnswer
from freetrain.policies.solver.piecewise import PiecewiseChoice

Choices = Sequence[PiecewiseChoice]
Nodes = Sequence[Sequence[int]]
Clock = Callable[[], float]


def _nobody(choices: Choices, capacity: Sequence[int]) -> Counts:
    return np.zeros((len(choices), len(capacity)), dtype=np.int64)


def sleeps(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    while True:
        time.sleep(3600.0)


def computes(choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock) -> int:
    return sum(range(10**18))


def exits(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    os._exit(0)


def crashes(choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed(choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fails(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    raise RuntimeError("licence of the moon expired")


def answers_none(choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock) -> Any:
    return {"counts": "all of them"}


def answers_text(choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock) -> Any:
    return SolverAnswer("all of them", True, 1.0, "optimal")  # type: ignore[arg-type]


def gives_fractions(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> Any:
    return SolverAnswer(_nobody(choices, capacity) + 0.5, True, 1.0, "optimal")


def gives_the_wrong_shape(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity)[1:], True, 1.0, "optimal")


def gives_less_than_nothing(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity) - 1, True, 1.0, "optimal")


def gives_more_than_there_is(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity) + np.array(capacity), True, 1.0, "optimal")


def gives_endlessly(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity) + (1 << 62), True, 1.0, "optimal")


def gives_all_to_one(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    counts = _nobody(choices, capacity)
    counts[0] = capacity
    return SolverAnswer(counts, True, 1e18, "optimal")


def lets_somebody_migrate(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    """Whoever has nodes of one class gets as many of another."""
    counts = _nobody(choices, capacity)
    row = next(row for row, choice in enumerate(choices) if any(choice.held))
    column = int(np.argmin(choices[row].held))
    counts[row, column] = max(choices[row].held)
    return SolverAnswer(counts, True, 1e18, "optimal")


def wastes(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity), False, 1e18, "Time limit reached", out_of_time=True)


def calls_waste_optimal(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity), True, 1e18, "Optimal")


def claims_a_bound_that_is_none(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(_nobody(choices, capacity), True, float("nan"), "Optimal")


def _best(choices: Choices, capacity: Sequence[int], left_s: Clock) -> SolverAnswer:
    from freetrain.policies.solver import highs

    return highs.solve(choices, capacity, left_s=left_s)


def claims_too_low_a_bound(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    best = _best(choices, capacity, left_s)
    return SolverAnswer(best.counts, True, best.bound * 0.9, "Optimal")


def stops_at_the_best(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    best = _best(choices, capacity, left_s)
    return SolverAnswer(best.counts, False, best.bound * 1.1, "Time limit reached", out_of_time=True)


def finds_nothing_in_time(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(None, False, float("inf"), "Time limit reached", out_of_time=True)


def never_solves(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return SolverAnswer(None, False, float("inf"), "Infeasible")


def needs_presolve_off(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    return (
        never_solves(choices, capacity, start, presolve, left_s=left_s)
        if presolve
        else _best(choices, capacity, left_s)
    )


def loses_what_it_found(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    lost = SolverAnswer(None, True, 1.0, "Optimal")
    return lost if presolve else _best(choices, capacity, left_s)


def hangs_at_the_second_try(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    refused = never_solves(choices, capacity, start, presolve, left_s=left_s)
    return refused if presolve else sleeps(choices, capacity, start, presolve, left_s=left_s)


def keeps_the_start(
    choices: Choices, capacity: Sequence[int], start: Nodes, presolve: bool, *, left_s: Clock
) -> SolverAnswer:
    counts = np.zeros((choices[-1].trainer + 1, len(capacity)), dtype=np.int64)
    for choice, nodes in zip(choices, start, strict=True):
        counts[choice.trainer] += nodes
    return SolverAnswer(counts, False, float("inf"), "Time limit reached", out_of_time=True)
