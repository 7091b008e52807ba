"""Demand: how many nodes each trainer would take if it could have all that it may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from freetrain.core.classes import NodeClass
from freetrain.core.deadlines import Hurries
from freetrain.core.terms import terms_of, with_changes
from freetrain.core.trainer import Trainer
from freetrain.core.value import distinct_tables


def demands(
    trainers: Sequence[Trainer],
    held: Mapping[str, int],
    objective: str,
    horizon_s: float,
    *,
    hurries: Hurries,
    watts: float = 0.0,
    changes: float = 1.0,
) -> Mapping[str, int]:
    """Trainer → the size at which it is worth most over the horizon, the smallest of them; 0: it would not start.

    Args:
        trainers: which.
        held: nodes that they have now; 0 where one is missing.
        objective: name of what is maximised.
        horizon_s: how far ahead value is counted.
        hurries: what their deadlines ask for.
        watts: the least that a node takes.
        changes: how often growing and shrinking are charged.
    """
    if not trainers:
        return {}
    every = range(len(trainers))
    terms = with_changes(terms_of(tuple(trainers), objective), changes)
    terms = hurries.on(terms, every, np.ones(len(every)))
    now = np.array([held.get(trainer.id, 0) for trainer in trainers], dtype=np.int64)
    tables, row = distinct_tables(terms, now, NodeClass(horizon_s, False, {}, watts=watts))
    best = tables.argmax(axis=1)[row]
    return dict(zip((trainer.id for trainer in trainers), best.tolist(), strict=True))
