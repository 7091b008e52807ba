"""Generating columns: trainers' best replies to prices, until none is better than the columns that are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from freetrain.policies.solver.bidders import Bidders
from freetrain.policies.solver.limits import Limits
from freetrain.policies.solver.master import Master
from freetrain.policies.solver.over_classes import Layout
from freetrain.policies.solver.replies import Duals, Replies, best_replies

EXACT = 1e-9
"""Relative difference of values that counts as none."""
_MOST_ROUNDS = 200
"""Times that columns are generated for the relaxed combination, where they stop getting better long before."""

Clock = Callable[[], float]
"""Wall seconds that are left."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What is known of a relaxed combination.

    Attributes:
        bound: no allocation is worth more.
        duals: the prices that prove it.
        replies: the best ones to them.
    """

    bound: float
    duals: Duals
    replies: Replies


def generate(
    master: Master,
    bidders: Bidders,
    limits: Limits,
    left_s: Clock,
    enough: float = -np.inf,
    too_much: float = np.inf,
    layout: Layout | None = None,
    *,
    tail: float = 0.0,
) -> Relaxed:
    """Add columns until the prices say that no other is better.

    Args:
        master: the columns known, and to which others are added.
        bidders: the trainers.
        limits: of what they may have.
        left_s: wall seconds that are left.
        enough: a bound that need not be any lower.
        too_much: where the bound cannot come below this, it need not be known.
        layout: as for ``best_replies``.
        tail: the bound need not come lower by more than this share of its distance from ``enough``.
    """
    master.allow(limits)
    best = None
    for _ in range(_MOST_ROUNDS):
        worth, duals, _ = master.relax()
        replies = best_replies(bidders, duals, limits, layout)
        bound = duals.bound(bidders, replies, limits)
        if best is None or bound < best.bound:
            best = Relaxed(bound, duals, replies)
        near = max(EXACT * max(1.0, abs(worth)), tail * (best.bound - enough) if tail else 0.0)
        if best.bound <= max(enough, worth + near) or worth >= too_much:
            break
        if not master.add_all(replies.counts) or left_s() <= 0:
            break
    assert best is not None
    return best
