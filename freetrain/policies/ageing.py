"""Ageing: a training that has waited for longer than a site's patience has turns in which it comes first.

Policies that weigh sizes by a value of their own may leave out those that are worth least, as long as others come.
With a patience of P seconds trainings that are overdue take turns before anything is weighed:

- *Overdue* are those to which P or more of their time are owed: their age, less the time that their samples take
  at their fastest. That is never less than they have waited in all.
- The clock is divided into rounds of P. In each round every training has one *turn*, which begins at an instant
  that is drawn from its name. An overdue training then gets its smallest size, and keeps it until the turns of
  others have begun that need the nodes.

So a training that can run is overdue after P, and has its turn at most 2 P later; that another's begins before a
decision is made is a chance that is drawn again in each round. Turns need no memory, and what a training says of
itself cannot give it more than one in a round. A training whose submission time is unknown has no turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.trainer import Trainer
from freetrain.durations import show_duration

PATIENCE_S = 86400.0
"""Default patience of a site, in seconds: a day."""
_CRC_VALUES = 1 << 32


def owed_s(problem: Problem, trainer: Trainer) -> float:
    """Time that a training has not had, at least what it has waited; 0: its submission time is unknown."""
    if trainer.submitted_s is None or not trainer.can_run:
        return 0.0
    fastest = float(trainer.samples_per_s.max())
    served_s = problem.done_samples.get(trainer.id, 0.0) / fastest if fastest > 0 else 0.0
    return max(problem.now_s - trainer.submitted_s - served_s, 0.0)


def _turn_began_s(now_s: float, trainer: Trainer, patience_s: float) -> float:
    this_round = now_s // patience_s
    # Not hash(): Python's differs from process to process, and the same problem must have the same answer.
    turns_s = (
        (number + crc32(f"{trainer.id}/{number:.0f}".encode()) / _CRC_VALUES) * patience_s
        for number in (this_round, this_round - 1)
    )
    return next(turn_s for turn_s in turns_s if turn_s <= now_s)


def overdue_sizes(problem: Problem, allowed: NDArray[np.bool_], patience_s: float) -> Sizes:
    """The smallest size of each training whose turn it is, of those that fit together; 0: it is not its turn."""
    sizes = np.zeros(len(problem.trainers), dtype=np.int64)
    if patience_s <= 0:
        return sizes
    # A size that stays cannot be given up for a turn, so such a trainer keeps its nodes.
    stays = problem.terms.moldable & (problem.held_nodes > 0)
    left = problem.node_count - int(problem.held_nodes[stays].sum())
    overdue = [
        (_turn_began_s(problem.now_s, trainer, patience_s), row)
        for row, trainer in enumerate(problem.trainers)
        if allowed[row, 1:].any() and not stays[row] and owed_s(problem, trainer) >= patience_s
    ]
    # The turn that began last comes first: those before it have had their time.
    for _, row in sorted(overdue, reverse=True):
        least = int(allowed[row, 1:].argmax()) + 1
        if least <= left:
            sizes[row] = least
            left -= least
    # Where somebody has a turn, sizes that stay are kept as if they had one, and cannot be priced out.
    return np.where(stays & sizes.any(), problem.held_nodes, sizes)


def serve_first(values: Table, sizes: Sizes) -> Table:
    """Values with which those whose turn it is get these sizes or more, whatever the others are worth."""
    if not sizes.any():
        return values
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    # More than all the others could lose together: no plan that denies a turn is worth as much.
    more = 1.0 + 2.0 * float(finite.max(axis=1).sum())
    has_turn = (sizes > 0)[:, None] & (np.arange(values.shape[1]) >= sizes[:, None])
    return np.where(has_turn, values + more, values)


def say_turns(problem: Problem, sizes: Sizes) -> Sequence[str]:
    """Sentences on whose turn it is."""
    overdue = [problem.trainers[row] for row in np.flatnonzero(sizes).tolist()]
    return [
        f"It is the turn of {trainer.id}, to which {show_duration(owed_s(problem, trainer))} of its time are owed."
        for trainer in overdue
        if not trainer.moldable
    ]
