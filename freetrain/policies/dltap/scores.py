"""Scores of a node for a task, whole numbers of 0 to 11 as Kubernetes 1.2 and DLTAP's published code give them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Amounts = NDArray[np.float64]


def aggregation_score(peers_here: int, peers: int) -> int:
    """1 to 11: how much of the task's traffic stays on the node, where as many of its peers are."""
    return 10 * peers_here // peers + 1 if peers else 1


def least_requested(asked: Amounts, size: Amounts) -> Whole:
    """0 to 10 for each node: how empty it would be, the mean over CPUs and memory, rounded down.

    Args:
        asked: CPUs and memory that its tasks would have, shape (nodes, 2).
        size: those that there are.
    """
    free = np.floor(10 * (size - asked) / size + 1e-9).astype(np.int64)
    return np.asarray(free.sum(axis=1) // 2, dtype=np.int64)


def balanced(asked: Amounts, size: Amounts) -> Whole:
    """0 to 10 for each node: how equally its CPUs and its memory would be used; 0 where either is used up."""
    used = asked / size
    apart = np.abs(used[:, 0] - used[:, 1])
    score = np.floor(10 - 10 * apart + 1e-9).astype(np.int64)
    return np.where((used >= 1).any(axis=1), 0, score)


def spreading(own_tasks: Whole) -> Whole:
    """0 to 10 for each node: the fewer tasks of the same training it has, the better."""
    most = int(own_tasks.max(initial=0))
    return 10 * (most - own_tasks) // most if most else np.full_like(own_tasks, 10)
