"""Requests: what trainings that could run ask for, as the judge and a policy see it. Pure."""

from __future__ import annotations

from functools import partial

import numpy as np

from freetrain.core.objectives import find_objective
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers.change_costs import believed_speeds, most_lost_s
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.daemon.trainers.training import Training
from freetrain.errors import InputError
from freetrain.lending.facts import Request

_MOST_WORTH = 1e30
"""Sums of what is worth less stay far from the largest number."""


def requests_of(
    training: Training, room: int, most_nodes: int, objective: str, now_s: float
) -> tuple[Request, ...] | Fault | str:
    """What a training asks for, one for each task where these compete; or what is wrong; or what it waits for.

    Args:
        training: one that competes.
        room: how many fragments it could have by what was submitted.
        most_nodes: for how many there are nodes.
        objective: name of what is maximised.
        now_s: UTC epoch seconds.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    return isolated(partial(_requests, training, room, most_nodes, objective, now_s))


def _requests(
    training: Training, room: int, most_nodes: int, objective: str, now_s: float
) -> tuple[Request, ...] | str:
    assert training.tag is not None
    found = strategy_of(training.tag).trainers(training, training.tag, room, most_nodes, now_s)
    if isinstance(found, str):
        return found
    for trainer in found:
        _check_size_of_numbers(trainer, objective)
    return tuple(_request(training, trainer) for trainer in found)


def _check_size_of_numbers(trainer: Trainer, objective: str) -> None:
    worth = float(np.abs(terms_of((trainer,), objective).worth).max())
    costs_s = (trainer.scale_up_s, trainer.scale_down_s, trainer.eviction_s, trainer.start_s, trainer.boot_s)
    if not worth * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")


def _request(training: Training, trainer: Trainer) -> Request:
    assert training.tag is not None
    submission, tag, known = training.submission, training.tag, training.trainer
    return Request(
        trainer,
        known.owner,
        submission.tasks[0].account,
        submission.needs,
        tuple(believed_speeds(known, tag).items()),
        tag.mixed,
        filler=known.id if strategy_of(tag).tasks_compete else "",
        cache_mb=tag.cache_mb,
        task_s=known.costs.run.mean_s if trainer.independent else 0.0,
        most_lost_s=most_lost_s(tag),
    )
