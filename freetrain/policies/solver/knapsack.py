"""The exact dynamic programme for nodes of one class: one size per trainer, at most so many nodes."""

from __future__ import annotations

from itertools import pairwise

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
    open_rows = np.flatnonzero(most > fewest).tolist()
    options = [range(*bounds) for bounds in pairwise(begin.tolist())]
    # A line before and after each trainer. In front of each stands -inf up to the largest extra, so that every
    # shift of it is a window and none runs out.
    best = np.full((len(open_rows) + 1, reach + spare + 1), -np.inf)
    best[0, reach:] = 0.0
    shifted, shift, values = sliding_window_view(best, spare + 1, axis=1), reach - extra, value[:, None]
    for line, row in enumerate(open_rows):
        its = slice(options[row].start, options[row].stop)
        candidates = shifted[line, shift[its]]
        candidates += values[its]
        np.maximum.reduce(candidates, axis=0, out=best[line + 1, reach:])
    # Back from the end: which size it was that led there.
    sizes: Sizes = fewest.copy()
    at, value_of, extra_of = reach + spare, value.tolist(), extra.tolist()
    for line, row in reversed(list(enumerate(open_rows))):
        led = [best.item(line, at - extra_of[option]) + value_of[option] for option in options[row]]
        more = extra_of[options[row][led.index(max(led))]]
        sizes[row] += more
        at -= more
    return sizes
