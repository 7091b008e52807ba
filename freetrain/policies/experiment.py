"""Experiments on made-up, seeded trainings: what a system gains over each baseline, with an interval.

Each system's room has an ``experiment.py`` with ``run(seeds)``. All compare by seed: the same trainings are
decided by the system and by the baseline, and the ratio of the figures is averaged over seeds. Where its interval
contains 1 no difference was seen, and there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

SEEDS = 20
_NORMAL_975 = 1.959964
"""97.5 % of a normal variable lies below it."""
COLUMNS = ("setting", "figure", "method", "against", "of the method", "of the other", "ratio", "±", "verdict")

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Figures of an experiment.

    Attributes:
        title: what was done, in a sentence.
        columns: what each column says.
        rows: the figures.
        notes: sentences on how to read them.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """A method beside a baseline on the same trainings.

    Attributes:
        setting: what was varied.
        figure: what is counted.
        method: name of what is compared.
        against: name of the baseline.
        of_method: the figure of the method, of each seed.
        of_other: that of the baseline, by seed.
        less_is_better: whether the method should have less of it.
    """

    setting: str
    figure: str
    method: str
    against: str
    of_method: Sequence[float]
    of_other: Sequence[float]
    less_is_better: bool = False

    @property
    def row(self) -> tuple[Cell, ...]:
        """Means of both, the mean ratio with its 95 % interval, and what that says."""
        ratios = [method / other for method, other in zip(self.of_method, self.of_other, strict=True) if other]
        ratio, half = (round(number, 3) for number in interval(ratios))
        verdict = "no difference seen"
        if abs(ratio - 1) > half:
            verdict = "better" if (ratio < 1) == self.less_is_better else "worse"
        means = (float(f"{mean(values):.4g}") for values in (self.of_method, self.of_other))
        names = self.setting, self.figure, self.method, self.against
        return (*names, *means, ratio, half if math.isfinite(half) else "unknown", verdict)


def compared(title: str, seeds: int, comparisons: Iterable[MethodComparison], notes: Sequence[str]) -> ResultTable:
    """A table with a row for each comparison."""
    how = f"ratio ± half of its 95 % interval, by {seeds} seeds; where that contains 1 no difference was seen."
    return ResultTable(title, COLUMNS, tuple(comparison.row for comparison in comparisons), (how, *notes))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95 % interval by Student's t; infinite of fewer than two values."""
    if len(values) < 2:
        return (mean(values) if values else math.nan), math.inf
    degrees, z = len(values) - 1, _NORMAL_975
    # Cornish and Fisher's expansion of Student's quantile: off by less than 0.002 from 9 degrees of freedom on.
    t = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return mean(values), t * stdev(values) / math.sqrt(len(values))
