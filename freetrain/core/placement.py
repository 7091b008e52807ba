"""Placement: which nodes, once it is decided how many."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.supply import Counts, NodeClass, Supply

Placement = Mapping[str, tuple[str, ...]]
"""Trainer → its nodes; trainers without a node are left out."""


def place(supply: Supply, counts: Counts) -> Placement:
    """Turn counts per class into nodes: who keeps, keeps its first nodes; who grows, takes what is free first.

    Nodes that nobody holds are handed out before those that another trainer gives up, so that a plan
    waits for as few releases as possible.
    """
    placement: dict[str, list[str]] = {trainer.id: [] for trainer in supply.problem.trainers}
    for column, node_class in enumerate(supply.classes):
        _place_class(supply, node_class, column, counts, placement)
    return {trainer: tuple(names) for trainer, names in placement.items() if names}


def _place_class(
    supply: Supply, node_class: NodeClass, column: int, counts: Counts, placement: dict[str, list[str]]
) -> None:
    given_up: list[str] = []
    wanted: list[tuple[str, int]] = []
    for row, trainer in enumerate(supply.problem.trainers):
        held = node_class.names.get(trainer.id, [])
        size = int(counts[row, column])
        placement[trainer.id] += held[:size]
        given_up += held[size:]
        if size > len(held):
            wanted.append((trainer.id, size - len(held)))
    available = iter([*node_class.names.get(None, []), *given_up])
    for trainer_id, missing in wanted:
        placement[trainer_id] += [next(available) for _ in range(missing)]
