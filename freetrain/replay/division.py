"""The best division of nodes among trainers when changing it costs nothing: what a replay is measured by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freetrain.core.objectives import worth_per_s
from freetrain.core.terms import Sizes, Table
from freetrain.core.trainer import Trainer
from freetrain.policies.solver.knapsack import best_sizes
from freetrain.policies.solver.pricing import price_out

Kinds = tuple[int, ...]
"""The kinds of some trainers, in order."""


class Divider:
    """Divides nodes among trainers; those with the same values are alike, so known answers serve again.

    Args:
        objective: name of what is maximised.
    """

    def __init__(self, objective: str) -> None:
        self._objective = objective
        self._kind_of_trainer: dict[str, int] = {}
        self._kind_of_values: dict[bytes, int] = {}
        self._values: list[Table] = []
        self._tables: dict[Kinds, tuple[Table, Sizes]] = {}
        self._known: dict[tuple[int, Kinds], float] = {}

    def best_worth_per_s(self, trainers: Sequence[Trainer], nodes: int) -> float:
        """Worth per second of the best division of this many nodes."""
        if not trainers or not nodes:
            return 0.0
        kinds = tuple(sorted(map(self._kind, trainers)))
        if (nodes, kinds) not in self._known:
            tables, row = self._tables_of(kinds)
            priced = price_out(tables, nodes, row)
            sizes = best_sizes(priced, nodes)
            self._known[nodes, kinds] = float(priced.values[np.arange(len(sizes)), sizes].sum())
        return self._known[nodes, kinds]

    def _kind(self, trainer: Trainer) -> int:
        """Number shared by all trainers with the same value for every size."""
        if trainer.id not in self._kind_of_trainer:
            values = worth_per_s(trainer, self._objective).copy()
            values[1 : trainer.min_nodes] = -np.inf
            kind = self._kind_of_values.setdefault(values.tobytes(), len(self._values))
            if kind == len(self._values):
                self._values.append(values)
            self._kind_of_trainer[trainer.id] = kind
        return self._kind_of_trainer[trainer.id]

    def _tables_of(self, kinds: Kinds) -> tuple[Table, Sizes]:
        """The values of each kind, -inf where a size is impossible, and which of these rows is each trainer's."""
        if kinds not in self._tables:
            there, row = np.unique(kinds, return_inverse=True)
            values = [self._values[kind] for kind in there]
            tables = np.full((len(there), max(map(len, values))), -np.inf)
            for table, each in zip(tables, values, strict=True):
                table[: len(each)] = each
            self._tables[kinds] = tables, row
        return self._tables[kinds]
