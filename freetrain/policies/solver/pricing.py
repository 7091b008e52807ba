r"""Pricing: which sizes can still be part of an optimum, and a good allocation to start from.

Choosing one size per trainer, sizes adding up to at most *N* nodes, is a multiple-choice knapsack. A price
λ per node takes the trainers apart: each takes the size of largest V(n) − λ·n, and

.. math:: L(\lambda) = \lambda N + \sum_j \max_n \bigl(V_j(n) - \lambda n\bigr)

bounds every allocation from above. At the price where the nodes just suffice the bound is nearly tight, and
a size whose V(n) − λ·n lies below its trainer's best by more than the bound lies above a known allocation
can be in no better one. The idea is old (Dyer 1984, Zemel 1984; Pisinger 1995 solves large knapsacks with it);
here it leaves a few sizes of a few trainers, whatever the size of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.terms import Sizes, Table

_MOST_PRICE_STEPS = 100
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Priced:
    """What pricing found out.

    Attributes:
        tables: values by size that differ, shape (tables, sizes), -inf where a size is impossible.
        row: which table is each trainer's, shape (trainers,).
        price: per node.
        losses: by how much each size is worth less at this price than the table's best, shape of ``tables``.
        sizes: a good allocation; its sizes are all worthwhile.
        bound: no allocation is worth more.
    """

    tables: Table
    row: Sizes
    price: float
    losses: Table
    sizes: Sizes
    bound: float

    @property
    def values(self) -> Table:
        """Of each trainer, shape (trainers, sizes)."""
        return self.tables[self.row]

    @property
    def value(self) -> float:
        """What the good allocation is worth."""
        return float(self.tables[self.row, self.sizes].sum())

    @property
    def rounding(self) -> float:
        """Values that differ by so little are equal."""
        return _ROUNDING * max(1.0, abs(self.bound))

    @property
    def most_loss(self) -> float:
        """Sizes that lose more, or lose more together, are in no optimum."""
        return self.bound - self.value + self.rounding

    @property
    def worthwhile(self) -> NDArray[np.bool_]:
        """Sizes of each trainer that can be part of an optimum, shape of ``values``."""
        return (self.losses <= self.most_loss)[self.row]

    @property
    def proven(self) -> bool:
        """Whether the good allocation reaches the bound, so that there is nothing left to solve."""
        return self.bound - self.value <= self.rounding


def price_out(tables: Table, nodes: int, row: Sizes | None = None) -> Priced:
    """Find the best price per node, an allocation close to the optimum, and the sizes that can beat it.

    Args:
        tables: values by size, -inf where impossible, shape (tables, sizes).
        nodes: how many there are.
        row: which table is each trainer's, shape (trainers,); None: each has its own.
    """
    row = np.arange(len(tables)) if row is None else row
    tables = tables[:, : nodes + 1]
    price, modest, generous = _market_price(tables, row, nodes)
    values = tables[row]
    sizes = _fill_up(values, _hand_out(values, modest, generous, nodes), nodes)
    reduced = tables - price * np.arange(tables.shape[1])
    best = reduced.max(axis=1, initial=-np.inf)
    bound = float(best[row].sum()) + price * nodes
    return Priced(tables, row, price, best[:, None] - reduced, sizes, bound)


def _market_price(distinct: Table, row: Sizes, nodes: int) -> tuple[float, Sizes, Sizes]:
    """Price that minimises L, with the choices just above it (they fit) and just below (they do not).

    L is convex and piecewise linear: the lines of a price too high and one too low cross at the next to
    try, until no line lies above the crossing.
    """
    size, table = np.arange(distinct.shape[1]), np.arange(len(distinct))
    alike = np.bincount(row, minlength=len(distinct))

    def choices_at(price: float) -> tuple[Sizes, float, int]:
        chosen = (distinct - price * size).argmax(axis=1)
        return chosen, float(distinct[table, chosen][row].sum()), int(alike @ chosen)

    generous, generous_worth, generous_nodes = choices_at(0.0)
    if generous_nodes <= nodes:
        return 0.0, generous[row], generous[row]
    modest = np.zeros(len(distinct), dtype=np.int64)
    modest_worth, modest_nodes, price = float(distinct[row, 0].sum()), 0, 0.0
    for _ in range(_MOST_PRICE_STEPS):
        price = (generous_worth - modest_worth) / (generous_nodes - modest_nodes)
        chosen, worth, total = choices_at(price)
        if total in (modest_nodes, generous_nodes):
            break
        if total <= nodes:
            modest, modest_worth, modest_nodes = chosen, worth, total
        else:
            generous, generous_worth, generous_nodes = chosen, worth, total
    return price, modest[row], generous[row]


def _hand_out(values: Table, modest: Sizes, generous: Sizes, nodes: int) -> Sizes:
    """Move trainers from the modest to the generous choice while the nodes last, best gain per node first."""
    sizes = modest.copy()
    rows = np.flatnonzero(generous > modest)
    gain, more = values[rows, generous[rows]] - values[rows, modest[rows]], (generous - modest)[rows]
    order, left = np.argsort(-gain / more, kind="stable"), nodes - int(sizes.sum())
    for row, its in zip(rows[order].tolist(), more[order].tolist(), strict=True):
        if its <= left:
            sizes[row] += its
            left -= its
    return sizes


def _fill_up(values: Table, sizes: Sizes, nodes: int) -> Sizes:
    """Give what is left to whoever gains most from it, until nobody gains."""
    rows = np.arange(len(values))
    size = np.arange(values.shape[1])
    for _ in rows:
        left = nodes - int(sizes.sum())
        if left == 0:  # a size chosen at a price is worth more than any smaller one
            break
        reachable = np.where(size <= sizes[:, None] + left, values, -np.inf)
        wanted = np.argmax(reachable, axis=1)
        gain = reachable[rows, wanted] - values[rows, sizes]
        winner = int(np.argmax(gain))
        if gain[winner] <= 0:
            break
        sizes[winner] = wanted[winner]
    return sizes
