"""Selection: which trainers compete for nodes at this look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from freetrain.core.lent_trainer import as_trainer, curve_of
from freetrain.core.objectives import find_objective
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.entries import Entry
from freetrain.daemon.isolation import Fault, isolated
from freetrain.errors import InputError

_MOST_WORTH = 1e30
"""Sums of what is worth less stay far from the largest number."""


def competitors(
    entries: Iterable[Entry], rooms: Mapping[str, int], most: int, objective: str
) -> tuple[list[tuple[Entry, Trainer]], Mapping[str, str]]:
    """The first ``most`` trainers that may have nodes, as a policy sees them; those that cannot compete → why.

    Args:
        entries: all.
        rooms: trainer → most nodes it could have.
        most: how many may compete.
        objective: name of what is maximised.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    found, faults = [], {}
    for entry in [one for one in entries if one.competes and one.tag is not None][:most]:
        trainer = isolated(partial(_competitor, entry, rooms[entry.trainer.id], objective))
        if isinstance(trainer, Fault):
            faults[entry.trainer.id] = trainer.what
        elif trainer is not None:
            found.append((entry, trainer))
    return found, faults


def _competitor(entry: Entry, room: int, objective: str) -> Trainer | None:
    """The trainer as a policy sees it; None: there is no room for its minimum."""
    tag = entry.tag
    assert tag is not None
    most_nodes = min(tag.max_nodes or room, room)
    min_nodes = min(tag.min_nodes, max(most_nodes, 1)) if entry.is_drained else tag.min_nodes
    if entry.last_completed or not entry.is_active:
        most_nodes = min(max(len(entry.fragments), min_nodes), room)
    if most_nodes < min_nodes:
        return None
    curve = curve_of(entry.trainer, tag.curve, most_nodes)
    costs_s = (tag.grow_s, tag.shrink_s, tag.start_s)
    trainer = as_trainer(entry.trainer, curve, min_nodes, most_nodes, costs_s, tag.weight)
    terms = terms_of((trainer,), objective)
    if not float(np.abs(terms.worth).max()) * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")
    return trainer
