"""Requests: what the trainers that could run ask for, as a policy sees it."""

from __future__ import annotations

from functools import partial

import numpy as np

from freetrain.core.curves import curve_of
from freetrain.core.objectives import find_objective
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers.change_costs import believed_costs
from freetrain.daemon.trainers.entries import Entry
from freetrain.daemon.trainers.fillers import filler
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.errors import InputError
from freetrain.lending.facts import Request
from freetrain.slurm.tags import Tag

_MOST_WORTH = 1e30
"""Sums of what is worth less stay far from the largest number."""


def request_of(entry: Entry, room: int, objective: str, now_s: float) -> Request | Fault | str:
    """What the trainer asks for; or what is wrong with it; or what it waits for.

    Args:
        entry: one that competes.
        room: most nodes it could have by what was submitted.
        objective: name of what is maximised.
        now_s: UTC epoch seconds.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    return isolated(partial(_request, entry, room, objective, now_s))


def _request(entry: Entry, room: int, objective: str, now_s: float) -> Request | str:
    assert entry.tag is not None
    tag = entry.tag
    most_nodes = min(tag.max_nodes or room, room)
    min_nodes = min(tag.min_nodes, max(most_nodes, 1)) if entry.is_drained else tag.min_nodes
    if entry.last_completed or not entry.is_active:
        most_nodes = min(max(len(entry.fragments), min_nodes), room)
    if min_nodes > most_nodes:
        return f"needs {min_nodes} nodes at once; it has tasks for {most_nodes}"
    if tag.is_filler:
        trainer = filler(entry, tag, most_nodes, now_s)
    else:
        trainer = _training(entry, tag, min_nodes, most_nodes)
    worth = float(np.abs(terms_of((trainer,), objective).worth).max())
    costs_s = (trainer.scale_up_s, trainer.scale_down_s, trainer.eviction_s, trainer.start_s, trainer.boot_s)
    if not worth * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")
    submission = entry.submission
    account = submission.tasks[0].account
    return Request(trainer, entry.trainer.owner, account, submission.needs, tag.speeds, tag.mixed)


def _training(entry: Entry, tag: Tag, min_nodes: int, most_nodes: int) -> Trainer:
    costs = believed_costs(entry.trainer.costs, tag)
    return Trainer(
        id=entry.trainer.id,
        throughput=curve_of(entry.trainer, tag.curve, most_nodes),
        min_nodes=min_nodes,
        max_nodes=most_nodes,
        scale_up_s=costs.scale_up_s,
        scale_down_s=costs.scale_down_s,
        forced_loss_s=costs.forced_loss_s,
        start_s=costs.start_s,
        boot_s=costs.boot_s,
        weight=tag.weight,
        submitted_s=entry.trainer.first_seen_s,
        target_samples=tag.target_samples or None,
    )
