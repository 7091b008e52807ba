"""The exact dynamic programme for nodes of one class: one size per trainer, at most so many nodes."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from freetrain.core.terms import Sizes
from freetrain.policies.solver.pricing import Priced


def best_sizes(priced: Priced, nodes: int) -> Sizes:
    """Sizes of largest total value among those that pricing left; proven optimal.

    ``best[m]`` is the largest value of the trainers seen so far on at most *m* nodes beyond the fewest they
    can have:  best'[m] = max over sizes n of V(n) + best[m − (n − fewest)].
    """
    if priced.proven:
        return priced.sizes
    row_of_option, size = np.nonzero(priced.worthwhile)
    begin = np.searchsorted(row_of_option, np.arange(len(priced.values) + 1))
    fewest, most = size[begin[:-1]], size[begin[1:] - 1]
    value, extra = priced.values[row_of_option, size], size - fewest[row_of_option]
    spare = min(nodes - int(fewest.sum()), int((most - fewest).sum()))
    reach = int((most - fewest).max())
    # Behind -inf up to the largest extra, so that every shift of ``best`` is a window and none runs out.
    padded = np.full(reach + spare + 1, -np.inf)
    padded[reach:] = 0.0
    shifted = sliding_window_view(padded, spare + 1)
    options = [slice(*bounds) for bounds in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)]
    open_rows = np.flatnonzero(most > fewest).tolist()
    chosen = []
    for row in open_rows:
        candidates = shifted[reach - extra[options[row]]] + value[options[row], None]
        chosen.append(candidates.argmax(axis=0))
        padded[reach:] = candidates.max(axis=0)
    sizes: Sizes = fewest.copy()
    for row, choice in zip(reversed(open_rows), reversed(chosen), strict=True):
        more = int(extra[options[row]][choice[spare]])
        sizes[row] += more
        spare -= more
    return sizes
