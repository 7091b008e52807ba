"""SMD's outer problem: which trainings run, where all of them together want more than there is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from freetrain.policies.binary_programme import HIGHS, BinaryProgramme, LinearRow, ProgrammeGuest
from freetrain.policies.smd.inner import Amounts


@dataclass(frozen=True, slots=True)
class RunOption:
    """A way to run a training.

    Attributes:
        job: which training; of several ways to run it one is chosen at most.
        value: what running it so is worth.
        demand: what it takes of each resource.
    """

    job: int
    value: float
    demand: Amounts


@dataclass(frozen=True, slots=True)
class OuterSolution:
    """The chosen options.

    Attributes:
        options: positions of the options, ascending.
        value: what they are worth together.
        by: what found them.
        why: why it is not the proven optimum, a clause; empty: it is.
    """

    options: tuple[int, ...]
    value: float
    by: str
    why: str = ""


def sigmoid(seconds_to_go: float, worth: float, steepness: float, deadline: float) -> float:
    """Worth of a completion after so long: all of it early, half of it at the deadline, nothing much later.

    Args:
        seconds_to_go: until completion; the unit is that of ``deadline``.
        worth: if it were at once and the steepness high.
        steepness: how suddenly it falls; 0: half of it whenever it is.
        deadline: where it is half.
    """
    exponent = min(max(steepness * (seconds_to_go - deadline), -700.0), 700.0)
    return worth / (1 + math.exp(exponent))


def choose(
    options: Sequence[RunOption], capacity: Amounts, time_s: float, highs: ProgrammeGuest = HIGHS
) -> OuterSolution:
    """Options of largest value that fit together, one for each training at most.

    1. HiGHS finds the optimum, or the best in its time.
    2. Where that is nothing usable, its linear relaxation is rounded: at most as many options are split as there
       are resources and trainings with several options; they are dropped, and what is free is filled up.
    3. Without HiGHS, it is filled up from nothing: most value per share of what there is first.
    """
    possible = [number for number, option in enumerate(options) if option.value > 0]
    rows = _rows(options, possible, capacity)
    values = [options[number].value for number in possible]
    found, why = highs.solve(BinaryProgramme(values, rows), time_s)
    if found is not None:
        chosen = [number for number, taken in zip(possible, found, strict=True) if taken > 0.5]
        filled = _filled(options, chosen, capacity) if why else tuple(chosen)
        return OuterSolution(filled, _value(options, filled), "HiGHS", why)
    relaxed, _ = highs.solve(BinaryProgramme(values, rows, integral=False), time_s)
    if relaxed is not None:
        whole = [number for number, share in zip(possible, relaxed, strict=True) if share > 1 - 1e-6]
        filled = _filled(options, whole, capacity)
        return OuterSolution(filled, _value(options, filled), "rounding", why)
    filled = _filled(options, [], capacity)
    return OuterSolution(filled, _value(options, filled), "filling up", why)


def _rows(options: Sequence[RunOption], possible: Sequence[int], capacity: Amounts) -> list[LinearRow]:
    rows = [
        LinearRow({place: options[number].demand[resource] for place, number in enumerate(possible)}, most)
        for resource, most in enumerate(capacity)
    ]
    of_job: dict[int, dict[int, float]] = {}
    for place, number in enumerate(possible):
        of_job.setdefault(options[number].job, {})[place] = 1.0
    return rows + [LinearRow(factors, 1.0) for factors in of_job.values() if len(factors) > 1]


def _filled(options: Sequence[RunOption], chosen: Sequence[int], capacity: Amounts) -> tuple[int, ...]:
    """The chosen ones, and of the others those that still fit, most value per share of what there is first."""
    filled, jobs = list(chosen), {options[number].job for number in chosen}
    left = [
        most - sum(options[number].demand[resource] for number in chosen) for resource, most in enumerate(capacity)
    ]

    def density(number: int) -> float:
        option = options[number]
        share = sum(taken / most for taken, most in zip(option.demand, capacity, strict=True) if most > 0)
        return option.value / share if share > 0 else math.inf

    for number in sorted(range(len(options)), key=lambda number: (-density(number), number)):
        option = options[number]
        fits = all(taken <= free + 1e-9 for taken, free in zip(option.demand, left, strict=True))
        if option.value > 0 and option.job not in jobs and fits:
            filled.append(number)
            jobs.add(option.job)
            left = [free - taken for free, taken in zip(left, option.demand, strict=True)]
    return tuple(sorted(filled))


def _value(options: Sequence[RunOption], chosen: Sequence[int]) -> float:
    return sum(options[number].value for number in chosen)
