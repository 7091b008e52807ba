r"""One class of nodes: a multiple-choice knapsack, one size per trainer, sizes adding up to at most *N* nodes.

**Pricing** (:func:`price_out`). A price λ per node takes the trainers apart: each takes the size of largest
V(n) − λ·n, and

.. math:: L(\lambda) = \lambda N + \sum_j \max_n \bigl(V_j(n) - \lambda n\bigr)

bounds every allocation from above. At the price where the nodes just suffice the bound is nearly tight. A size
whose *loss*, by how much V(n) − λ·n lies below its trainer's best, exceeds the gap between the bound and a known
allocation is in no better one (Dyer 1984, Zemel 1984; Pisinger 1995 solves large knapsacks with it). That leaves a
few sizes of a few trainers, whatever the size of the machine.

**Dynamic programme** (:func:`best_sizes`). A node that no trainer has loses λ, so the best allocation is

.. math:: \min \sum_j \mathrm{loss}_j(n_j) + \lambda \Bigl(N - \sum_j n_j\Bigr).

No optimum loses more than the known allocation. So of identical trainers only some can lose anything, and only the
sizes of these are enumerated. The others have sizes without loss; those with several such sizes take nodes that
are left, as far as these add up to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from freetrain.core.terms import Sizes, Table

# Each step finds another of finitely many lines; the limit guards against rounding alone.
_MAX_PRICE_STEPS = 100
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Priced:
    """A priced knapsack.

    Attributes:
        tables: distinct tables of value by size, shape (tables, sizes), -inf where a size is impossible.
        row: row of each trainer's table, shape (trainers,).
        losses: worth that each size lacks at this price to its table's best, shape of ``tables``.
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
        """Table of each trainer, shape (trainers, sizes)."""
        return self.tables[self.row]

    @property
    def value(self) -> float:
        """Value of the good allocation."""
        return float(self.tables[self.row, self.sizes].sum())

    @property
    def rounding(self) -> float:
        """Difference up to which values count as equal."""
        return _ROUNDING * max(1.0, abs(self.bound))

    @property
    def max_loss(self) -> float:
        """Largest loss in an optimum: sizes that lose more, alone or together, are in none."""
        return self.bound - self.value + self.rounding

    @property
    def worthwhile(self) -> NDArray[np.bool_]:
        """Sizes of each trainer that can be part of an optimum, shape of ``values``."""
        return (self.losses <= self.max_loss)[self.row]

    @property
    def proven(self) -> bool:
        """Whether the good allocation reaches the bound, so that there is nothing left to solve."""
        return self.bound - self.value <= self.rounding


def price_out(tables: Table, nodes: int, row: Sizes | None = None) -> Priced:
    """Find the best price per node, an allocation close to the optimum, and the sizes that can beat it.

    ``tables`` are values by size, -inf where impossible; ``row`` is each trainer's table, None: its own.
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
    """Price that minimises L, with the sizes just above it (they fit) and just below (they do not)."""
    size, table = np.arange(distinct.shape[1]), np.arange(len(distinct))
    alike = np.bincount(row, minlength=len(distinct))

    def choices_at(price: float) -> tuple[Sizes, float, int]:
        chosen = (distinct - price * size).argmax(axis=1)
        return chosen, float(distinct[table, chosen][row].sum()), int(alike @ chosen)

    # Nodes that are free of charge and still enough for all have no price.
    generous, generous_worth, generous_nodes = choices_at(0.0)
    if generous_nodes <= nodes:
        return 0.0, generous[row], generous[row]
    modest = np.zeros(len(distinct), dtype=np.int64)
    modest_worth, modest_nodes, price = float(distinct[row, 0].sum()), 0, 0.0
    for _ in range(_MAX_PRICE_STEPS):
        # L is convex and piecewise linear: the lines of a price that is too high and of one that is too low cross
        # at the next price to try.
        price = (generous_worth - modest_worth) / (generous_nodes - modest_nodes)
        chosen, worth, total = choices_at(price)
        # One of the two lines again: none lies above the crossing, which is the lowest point of L.
        if total in (modest_nodes, generous_nodes):
            break
        if total <= nodes:
            modest, modest_worth, modest_nodes = chosen, worth, total
        else:
            generous, generous_worth, generous_nodes = chosen, worth, total
    return price, modest[row], generous[row]


def _hand_out(values: Table, modest: Sizes, generous: Sizes, nodes: int) -> Sizes:
    """Move trainers from the modest to the generous size while the nodes last, best gain per node first."""
    sizes = modest.copy()
    rows = np.flatnonzero(generous > modest)
    gain, more = values[rows, generous[rows]] - values[rows, modest[rows]], (generous - modest)[rows]
    # Stable, so that equal gains follow the trainers' order and the same problem always has the same answer.
    order, left = np.argsort(-gain / more, kind="stable"), nodes - int(sizes.sum())
    for row, nodes_more in zip(rows[order].tolist(), more[order].tolist(), strict=True):
        if nodes_more <= left:
            sizes[row] += nodes_more
            left -= nodes_more
    return sizes


def _fill_up(values: Table, sizes: Sizes, nodes: int) -> Sizes:
    """Give what is left to the trainer that gains most from it, until none gains."""
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


def best_sizes(priced: Priced, nodes: int) -> Sizes:
    """Sizes of largest total value, proven optimal."""
    if priced.proven:
        return priced.sizes
    smallest, lossy, takers = _candidates(priced)
    sizes: Sizes = smallest[priced.row]
    # What is left when all have their smallest worthwhile size; a lossy one may have less than without loss.
    spare = nodes - int(sizes.sum()) - sum(int(trainer.more[0]) for trainer in lossy)
    least = _least_losses(lossy, spare)
    sums = _sums(takers, spare)
    taken = _largest_sums(sums[-1], spare)
    left = (np.arange(spare + 1) - taken)[::-1]
    # A node that stays idle loses its price.
    loss = least[-1] + priced.price * left[: least.shape[1]]
    extra = int(loss.argmin())
    # The known allocation is as good, but for rounding: then it is the optimum.
    if loss[extra] >= priced.max_loss - 2 * priced.rounding:
        return priced.sizes
    _take(takers, sums, int(taken[spare - extra]), sizes)
    _trace(lossy, least, extra, sizes)
    return sizes


@dataclass(frozen=True, slots=True)
class _LossyTrainer:
    """A trainer that may have a size with a loss.

    Attributes:
        more: nodes of each worthwhile size beyond its smallest size without loss, ascending.
        losses: loss of each of these sizes.
    """

    row: int
    more: Sizes
    losses: Table


_Takers = Sequence[tuple[int, Sequence[int]]]
"""Trainers with several sizes without loss: the row, and the nodes beyond the smallest of these sizes."""


def _candidates(priced: Priced) -> tuple[Sizes, list[_LossyTrainer], _Takers]:
    """The smallest size of each table without loss; trainers that may lose; others that can take more nodes."""
    losses, max_loss = priced.losses, priced.max_loss
    costless, worthwhile = losses <= priced.rounding, losses <= max_loss
    smallest = costless.argmax(axis=1)
    least_loss = np.where(worthwhile & ~costless, losses, np.inf).min(axis=1)
    by_table = np.argsort(priced.row, kind="stable").tolist()
    begin = np.searchsorted(priced.row[by_table], np.arange(len(losses) + 1)).tolist()
    lossy: list[_LossyTrainer] = []
    takers: list[tuple[int, Sequence[int]]] = []
    for table in np.flatnonzero(np.count_nonzero(worthwhile, axis=1) > 1).tolist():
        alike = by_table[begin[table] : begin[table + 1]]
        # More losses than that exceed the gap together: of the alike the rest keep to sizes without loss.
        may_lose = int(min(len(alike), max_loss // least_loss[table]))
        if may_lose:
            (more,) = worthwhile[table].nonzero()
            its_losses = losses[table, more]
            more -= smallest[table]
            lossy += [_LossyTrainer(row, more, its_losses) for row in alike[:may_lose]]
        if may_lose < len(alike):
            free = (costless[table].nonzero()[0] - smallest[table]).tolist()
            takers += [(row, free) for row in alike[may_lose:] if len(free) > 1]
    return smallest, lossy, takers


def _least_losses(lossy: Sequence[_LossyTrainer], spare: int) -> Table:
    """Least loss by nodes beyond the smallest sizes, before and after each trainer: (trainers + 1, nodes + 1)."""
    reach = max((int(trainer.more[-1] - trainer.more[0]) for trainer in lossy), default=0)
    most = min(spare, sum(int(trainer.more[-1] - trainer.more[0]) for trainer in lossy))
    # In front of each line stands inf up to the largest size, so that each shift is a view and nothing is copied.
    least = np.full((len(lossy) + 1, reach + most + 1), np.inf)
    least[0, reach] = 0.0
    shifted = sliding_window_view(least, most + 1, axis=1)
    for line, trainer in enumerate(lossy):
        candidates = shifted[line, reach + trainer.more[0] - trainer.more]
        candidates += trainer.losses[:, None]
        np.minimum.reduce(candidates, axis=0, out=least[line + 1, reach:])
    return least[:, reach:]


def _trace(lossy: Sequence[_LossyTrainer], least: Table, extra: int, sizes: Sizes) -> None:
    """Backtracking: the size of each trainer that led to so many nodes beyond the smallest sizes."""
    for line, trainer in reversed(list(enumerate(lossy))):
        more = trainer.more.tolist()
        at = [extra + more[0] - nodes for nodes in more if nodes - more[0] <= extra]
        led = [least.item(line, before) + loss for before, loss in zip(at, trainer.losses.tolist(), strict=False)]
        chosen = led.index(min(led))
        sizes[trainer.row] += more[chosen]
        extra = at[chosen]


def _sums(takers: _Takers, spare: int) -> list[int]:
    """Bit sets of what the first takers can take together, before and after each: bit *n* stands for *n* nodes."""
    # One shift of a long integer adds a size to all sums at once.
    sums, within = [1], (1 << (spare + 1)) - 1
    for _, free in takers:
        reached = 0
        for nodes in free:
            reached |= sums[-1] << nodes
        sums.append(reached & within)
    return sums


def _largest_sums(reached: int, spare: int) -> Sizes:
    """For each number of nodes the largest sum that is no larger, shape (spare + 1,)."""
    if reached == 1:
        return np.zeros(spare + 1, dtype=np.int64)
    content = np.frombuffer(reached.to_bytes(spare // 8 + 1, "little"), dtype=np.uint8)
    bits = np.unpackbits(content, count=spare + 1, bitorder="little")
    largest: Sizes = np.maximum.accumulate(np.arange(spare + 1) * bits)
    return largest


def _take(takers: _Takers, sums: Sequence[int], nodes: int, sizes: Sizes) -> None:
    for (row, free), before in zip(reversed(takers), reversed(sums[:-1]), strict=True):
        # From the last taker back: the sums before it tell what the others can still make up.
        taken = next(more for more in reversed(free) if more <= nodes and before >> (nodes - more) & 1)
        sizes[row] += taken
        nodes -= taken
