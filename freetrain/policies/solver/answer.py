"""What a solver answers, and what of it can be believed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from freetrain.core.problem import Counts, Problem
from freetrain.core.value import total_value
from freetrain.core.verify import VALUE_TOLERANCE, verify_counts


@dataclass(frozen=True, slots=True)
class Answer:
    """What a solver says that it found.

    Attributes:
        counts: nodes of each trainer by class, or None where it found no allocation.
        proven: whether it is the optimum.
        bound: upper bound on the value.
        said: the solver's own word for how it ended.
        out_of_time: whether its time ran out.
    """

    counts: Counts | None
    proven: bool
    bound: float
    said: str
    out_of_time: bool = False


@dataclass(frozen=True, slots=True)
class Believed:
    """What of an answer can be believed.

    Attributes:
        proven: whether its allocation is the optimum, as far as can be told.
        bound: no allocation is worth more; inf: unknown, or what the answer claims is disproved.
        lie: what is disproved, as the rest of a sentence that begins with the solver's name; empty: nothing.
    """

    proven: bool
    bound: float
    lie: str = ""


def find_fault(problem: Problem, counts: object) -> str:
    """Why an allocation may not be used, as a clause; empty where it may."""
    trainers, classes = problem.held.shape
    if not isinstance(counts, np.ndarray) or counts.shape != (trainers, classes) or counts.dtype.kind != "i":
        return f"it is not a table of whole numbers for {trainers} trainers and {classes} classes of nodes"
    return "; ".join(verify_counts(problem, counts))


def believe(problem: Problem, answer: Answer, known_value: float) -> Believed:
    """Hold what an answer claims against its own allocation and another one.

    Args:
        problem: the problem.
        answer: with an allocation in which ``find_fault`` finds no fault.
        known_value: what the other allocation is worth.
    """
    assert answer.counts is not None
    value = total_value(problem, answer.counts)
    tolerance = VALUE_TOLERANCE * max(1.0, abs(value), abs(known_value))
    best = max(value, known_value)
    if not isinstance(answer.bound, float) or math.isnan(answer.bound):
        return Believed(False, math.inf, f"claims a bound that is not a number ({answer.bound!r:.40})")
    if best > answer.bound + tolerance:
        return Believed(
            False, math.inf, f"claims that nothing is worth more than {answer.bound:g}, yet {best:g} is"
        )
    if answer.proven and known_value > value + tolerance:
        return Believed(
            False, answer.bound, f"calls an allocation worth {value:g} optimal, yet {best:g} is better"
        )
    return Believed(bool(answer.proven) and answer.bound <= value + tolerance, answer.bound)
