r"""What an allocation is worth: the objective function of every policy.

A trainer with :math:`N_0 \ge N_1 \ge \dots` nodes alive in the successive intervals of :math:`\Delta_i` seconds
between the times at which nodes are expected back is worth

.. math:: \sum_i \Delta_i\,o(N_i) \;-\; \mathrm{switch}(C, N_0) \;-\; \sum_{i:\,N_{i+1} < N_i} f\,o(N_i)

where *o* is its worth per second, *C* the nodes it has now, *f* its eviction cost in seconds, and
``switch`` charges ``scale_up_s`` or ``scale_down_s`` at the old worth o(C), or ``start_s`` at the new
one where o(C) is 0. With no node due back within the horizon T this is FreeTrain's published objective,
T·o(N) − o(C)·(up if N > C, down if N < C).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from freetrain.core.objectives import worth_per_s
from freetrain.core.supply import Counts, NodeClass, Supply
from freetrain.core.trainer import Trainer

Table = NDArray[np.float64]
"""Value of one trainer by its number of nodes, shape (most_nodes + 1,); -inf for a size it may not have."""


def switching_cost(trainer: Trainer, worth: Table, held_nodes: int) -> Table:
    """What changing from ``held_nodes`` to each size costs, in worth, shape of ``worth``."""
    now = worth[min(held_nodes, len(worth) - 1)] if held_nodes >= trainer.min_nodes else 0.0
    if now == 0:
        return trainer.start_s * worth
    cost = np.zeros_like(worth)
    cost[:held_nodes] = trainer.scale_down_s * now
    cost[held_nodes + 1 :] = trainer.scale_up_s * now
    return cost


def forbid_impossible_sizes(trainer: Trainer, table: Table) -> Table:
    """The table with -inf for the sizes between nothing and the trainer's minimum."""
    table[1 : trainer.min_nodes] = -np.inf
    return table


def single_class_table(trainer: Trainer, worth: Table, held_nodes: int, node_class: NodeClass) -> Table:
    """Value of each size for a trainer whose nodes all come from one class."""
    useful_s = node_class.life_s - (trainer.eviction_s if node_class.taken_back else 0.0)
    return forbid_impossible_sizes(trainer, useful_s * worth - switching_cost(trainer, worth, held_nodes))


def trainer_value(
    trainer: Trainer, worth: Table, held_nodes: int, counts: Sequence[int], classes: Sequence[NodeClass]
) -> float:
    """Value of one trainer with this many nodes of each class (longest-lived first)."""
    alive = np.cumsum(counts)
    value = -float(switching_cost(trainer, worth, held_nodes)[alive[-1]]) if len(classes) else 0.0
    for position, node_class in enumerate(classes):
        shorter_life_s = classes[position + 1].life_s if position + 1 < len(classes) else 0.0
        rate = float(worth[alive[position]])
        value += (node_class.life_s - shorter_life_s) * rate
        if node_class.taken_back and counts[position]:
            value -= trainer.eviction_s * rate
    return value


def total_value(supply: Supply, counts: Counts) -> float:
    """Value of an allocation, the sum over all trainers."""
    objective = supply.problem.objective
    return sum(
        trainer_value(
            trainer,
            worth_per_s(trainer, objective),
            int(supply.held[row].sum()),
            counts[row].tolist(),
            supply.classes,
        )
        for row, trainer in enumerate(supply.problem.trainers)
    )


def counts_of(supply: Supply, allocation: Mapping[str, Sequence[str]]) -> Counts:
    """Count the nodes of each class that a placement gives each trainer; unknown names count nowhere."""
    column = {
        name: position
        for position, node_class in enumerate(supply.classes)
        for names in node_class.names.values()
        for name in names
    }
    counts = np.zeros((len(supply.problem.trainers), len(supply.classes)), dtype=np.int64)
    for row, trainer in enumerate(supply.problem.trainers):
        for name in allocation.get(trainer.id, ()):
            if name in column:
                counts[row, column[name]] += 1
    return counts
