"""Experiments on made-up, seeded trainings: what a system gains over each baseline, with an interval.

Each system has a file with an ``EXPERIMENT``. All compare seed by seed: the same trainings are decided by the
system and by the baseline, and the ratio of the figures is averaged over seeds. Where its interval contains 1 no
difference was seen, and there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from freetrain.replay.estimate import student_975

SEEDS = 20
COLUMNS = ("setting", "figure", "method", "against", "of the method", "of the other", "ratio", "±", "verdict")

TableCell = str | int | float


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The table of an experiment: a row for each comparison of two methods."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """A figure, such as ``utility``, of each method on the same trainings, those of one seed."""

    setting: str
    figure: str
    by_method: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that is done seed by seed, each time with the same figures in the same order.

    Attributes:
        run: function from a seed to the methods' figures with its trainings.
        compared: methods, each with the one that it is held against.
    """

    title: str
    run: Callable[[int], Iterable[MethodFigures]]
    compared: Sequence[tuple[str, str]]
    notes: tuple[str, ...]
    less_is_better: bool = False

    def table(self, by_seed: Sequence[Sequence[MethodFigures]]) -> ResultTable:
        """A table of the seeds that are there, with a row for each comparison of which there are both figures."""
        rows = tuple(
            self._row(figures, *pair)
            for figures in zip(*by_seed, strict=True)
            for pair in self.compared
            if figures[0].by_method.keys() >= {*pair}
        )
        how = f"ratio ± half of its 95 % interval, {len(by_seed)} seeds; 1 within it: no difference was seen."
        return ResultTable(self.title, COLUMNS, rows, (how, *self.notes))

    def _row(self, by_seed: Sequence[MethodFigures], method: str, against: str) -> tuple[TableCell, ...]:
        """Means of both, the mean ratio with its 95 % interval, and the verdict by that."""
        pairs = [(figures.by_method[method], figures.by_method[against]) for figures in by_seed]
        ratio, half = (round(number, 3) for number in interval([own / other for own, other in pairs if other]))
        verdict = "no difference seen"
        if abs(ratio - 1) > half:
            verdict = "better" if (ratio < 1) == self.less_is_better else "worse"
        means = (float(f"{mean(values):.4g}") for values in zip(*pairs, strict=True))
        names = by_seed[0].setting, by_seed[0].figure, method, against
        return (*names, *means, ratio, half if math.isfinite(half) else "unknown", verdict)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95 % interval by Student's t; infinite of fewer than two values."""
    if len(values) < 2:
        return (mean(values) if values else math.nan), math.inf
    return mean(values), student_975(len(values) - 1) * stdev(values) / math.sqrt(len(values))
