"""The best division of nodes among trainers when changing it costs nothing: what a replay is measured by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.objectives import worth_per_s
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.policies.solver.knapsack import best_sizes
from freetrain.policies.solver.pricing import price_out


class Divider:
    """Divides nodes among trainers; those with the same values are alike, so known answers serve again.

    Args:
        objective: name of what is maximised.
    """

    def __init__(self, objective: str) -> None:
        self._objective = objective
        self._kind_of_trainer: dict[str, int] = {}
        self._kind_of_values: dict[tuple[int, bytes], int] = {}
        self._known: dict[tuple[int, tuple[int, ...]], float] = {}

    def best_worth_per_s(self, trainers: Sequence[Trainer], nodes: int) -> float:
        """Worth per second of the best division of this many nodes."""
        if not trainers or not nodes:
            return 0.0
        key = (nodes, tuple(sorted(map(self._kind, trainers))))
        if key not in self._known:
            terms = terms_of(tuple(trainers), self._objective)
            _, first, row = np.unique(terms.kind, return_index=True, return_inverse=True)
            tables = np.where(terms.possible[first], terms.worth[first], -np.inf)
            priced = price_out(tables, nodes, row)
            sizes = best_sizes(priced, nodes)
            self._known[key] = float(terms.worth[np.arange(len(sizes)), sizes].sum())
        return self._known[key]

    def _kind(self, trainer: Trainer) -> int:
        """Number shared by all trainers with the same value for every size."""
        if trainer.id not in self._kind_of_trainer:
            values = (trainer.min_nodes, worth_per_s(trainer, self._objective).tobytes())
            kind = self._kind_of_values.setdefault(values, len(self._kind_of_values))
            self._kind_of_trainer[trainer.id] = kind
        return self._kind_of_trainer[trainer.id]
