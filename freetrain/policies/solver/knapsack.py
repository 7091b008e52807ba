r"""The exact dynamic programme for nodes of one class: one size per trainer, at most so many nodes.

At the market's price λ a size loses what it is worth less than the best of its table, and a node that nobody has
loses λ. By what an allocation loses in all it is worth less than the bound of pricing, so the best loses least:

.. math:: \min \sum_j \mathrm{loss}_j(n_j) + \lambda \Bigl(N - \sum_j n_j\Bigr)

No optimum loses more than the allocation that is known. So of trainers that are alike only some can lose anything,
and only their sizes are tried against each other. The others have a size that loses nothing; who has several such
sizes takes what is left, as far as these add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from freetrain.core.terms import Sizes, Table
from freetrain.policies.solver.pricing import Priced


def best_sizes(priced: Priced, nodes: int) -> Sizes:
    """Sizes of largest total value; proven optimal."""
    if priced.proven:
        return priced.sizes
    smallest, tried, takers = _sort_out(priced)
    sizes: Sizes = smallest[priced.row]
    room = nodes - int(sizes.sum()) - sum(int(one.more[0]) for one in tried)
    least = _least_losses(tried, room)
    sums = _sums(takers, room)
    taken = _largest_sums(sums[-1], room)
    left = (np.arange(room + 1) - taken)[::-1]
    loss = least[-1] + priced.price * left[: least.shape[1]]
    extra = int(loss.argmin())
    if loss[extra] >= priced.most_loss - 2 * priced.rounding:
        return priced.sizes
    _take(takers, sums, int(taken[room - extra]), sizes)
    _trace(tried, least, extra, sizes)
    return sizes


@dataclass(frozen=True, slots=True)
class _Tried:
    """A trainer that may lose something.

    Attributes:
        trainer: its position.
        more: by how much each size that is worthwhile is beyond its smallest that loses nothing, ascending.
        losses: of each of these sizes.
    """

    trainer: int
    more: Sizes
    losses: Table


_Takers = Sequence[tuple[int, Sequence[int]]]
"""Trainers, with the numbers of nodes more that lose nothing: 0 and others."""


def _sort_out(priced: Priced) -> tuple[Sizes, list[_Tried], _Takers]:
    """The smallest size of each table that loses nothing; who may lose something; others who can take more."""
    losses, most_loss = priced.losses, priced.most_loss
    costless, worthwhile = losses <= priced.rounding, losses <= most_loss
    smallest = costless.argmax(axis=1)
    lossy = np.where(worthwhile & ~costless, losses, np.inf).min(axis=1)
    by_table = np.argsort(priced.row, kind="stable").tolist()
    begin = np.searchsorted(priced.row[by_table], np.arange(len(losses) + 1)).tolist()
    tried: list[_Tried] = []
    takers: list[tuple[int, Sequence[int]]] = []
    for table in np.flatnonzero(np.count_nonzero(worthwhile, axis=1) > 1).tolist():
        alike = by_table[begin[table] : begin[table + 1]]
        may_lose = int(min(len(alike), most_loss // lossy[table]))
        if may_lose:
            (more,) = worthwhile[table].nonzero()
            its_losses = losses[table, more]
            more -= smallest[table]
            tried += [_Tried(trainer, more, its_losses) for trainer in alike[:may_lose]]
        if may_lose < len(alike):
            free = (costless[table].nonzero()[0] - smallest[table]).tolist()
            takers += [(trainer, free) for trainer in alike[may_lose:] if len(free) > 1]
    return smallest, tried, takers


def _least_losses(tried: Sequence[_Tried], room: int) -> Table:
    """Least loss by nodes beyond the fewest, before and after each trainer: shape (trainers + 1, nodes + 1)."""
    reach = max((int(one.more[-1] - one.more[0]) for one in tried), default=0)
    most = min(room, sum(int(one.more[-1] - one.more[0]) for one in tried))
    # In front of each line stands inf up to the largest size, so that every shift of it is a window of the line.
    least = np.full((len(tried) + 1, reach + most + 1), np.inf)
    least[0, reach] = 0.0
    shifted = sliding_window_view(least, most + 1, axis=1)
    for line, one in enumerate(tried):
        candidates = shifted[line, reach + one.more[0] - one.more]
        candidates += one.losses[:, None]
        np.minimum.reduce(candidates, axis=0, out=least[line + 1, reach:])
    return least[:, reach:]


def _trace(tried: Sequence[_Tried], least: Table, extra: int, sizes: Sizes) -> None:
    """Back from so many nodes beyond the fewest: which size of each trainer led there."""
    for line, one in reversed(list(enumerate(tried))):
        more = one.more.tolist()
        at = [extra + more[0] - each for each in more if each - more[0] <= extra]
        led = [least.item(line, before) + loss for before, loss in zip(at, one.losses.tolist(), strict=False)]
        chosen = led.index(min(led))
        sizes[one.trainer] += more[chosen]
        extra = at[chosen]


def _sums(takers: _Takers, room: int) -> list[int]:
    """What the first takers can take together, before and after each: bit *n* is set where they can take *n*."""
    sums, within = [1], (1 << (room + 1)) - 1
    for _, free in takers:
        reached = 0
        for nodes in free:
            reached |= sums[-1] << nodes
        sums.append(reached & within)
    return sums


def _largest_sums(reached: int, room: int) -> Sizes:
    """For each number of nodes the largest sum that is no larger, shape (room + 1,)."""
    if reached == 1:
        return np.zeros(room + 1, dtype=np.int64)
    content = np.frombuffer(reached.to_bytes(room // 8 + 1, "little"), dtype=np.uint8)
    bits = np.unpackbits(content, count=room + 1, bitorder="little")
    largest: Sizes = np.maximum.accumulate(np.arange(room + 1) * bits)
    return largest


def _take(takers: _Takers, sums: Sequence[int], nodes: int, sizes: Sizes) -> None:
    """Let the takers take just so many nodes together."""
    for (trainer, free), before in zip(reversed(takers), reversed(sums[:-1]), strict=True):
        taken = next(each for each in reversed(free) if each <= nodes and before >> (nodes - each) & 1)
        sizes[trainer] += taken
        nodes -= taken
