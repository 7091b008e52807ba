"""Objectives: worth of a second of a trainer by its number of nodes.

Every objective is one function from a trainer to its worth per second on 0, 1, …, ``most_nodes`` nodes.
A site names its own as ``module:function``; docs/decides/objectives.md shows how. Behind any of them may stand
what a decision weighs besides (``freetrain.core.aim``): ``weighted,evictions=60``. What was trained is
counted without.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from freetrain.core.aim import read_aim
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError

Objective = Callable[[Trainer], Sequence[float] | NDArray[np.float64]]


def throughput(trainer: Trainer) -> NDArray[np.float64]:
    """Samples per second, times the trainer's weight."""
    return trainer.weight * trainer.samples_per_s


def speedup(trainer: Trainer) -> NDArray[np.float64]:
    """Throughput relative to the trainer's own on one node: fair between fast and slow models."""
    table = trainer.samples_per_s
    # A curve may begin with rates of 0: then its best size stands for one node.
    one_node = float(table[1] or table.max()) or 1.0
    return table / one_node


def weighted(trainer: Trainer) -> NDArray[np.float64]:
    """Speed-up times the trainer's weight."""
    return trainer.weight * speedup(trainer)


_CONCAVITY = 0.9


def fair_completion(trainer: Trainer) -> NDArray[np.float64]:
    """Weight times a concave power of the speed-up: those that scale worse get more, and more are completed."""
    return trainer.weight * speedup(trainer) ** _CONCAVITY


OBJECTIVES: dict[str, Objective] = {
    "speedup": speedup,
    "throughput": throughput,
    "weighted": weighted,
    "fair-completion": fair_completion,
}


@lru_cache(maxsize=64)
def find_objective(name: str) -> Objective:
    """The objective of this name: a built-in one, or a site's own ``module:function``; what follows it is checked.

    Raises:
        InputError: there is no such objective or it cannot be imported.
    """
    name = read_aim(name).objective
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    module_name, colon, function_name = name.partition(":")
    if not colon:
        raise InputError(
            f"There is no objective {name!r}.",
            f"Choose one of {', '.join(OBJECTIVES)}, or name your own function as module:function.",
        )
    try:
        objective = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # a module of the site's may raise anything
        raise InputError(
            f"The objective {name!r} cannot be imported: {type(error).__name__}: {error}.",
            "Put the module's folder on PYTHONPATH, or install the module beside freetrain.",
        ) from error
    if not callable(objective):
        raise InputError(f"The objective {name!r} is no function but a {type(objective).__name__}.")
    return objective  # type: ignore[no-any-return]


@lru_cache(maxsize=2048)  # those of a look and of the one before: each has a number for each size
def worth_per_s(trainer: Trainer, objective_name: str) -> NDArray[np.float64]:
    """Worth of one second on 0 … ``most_nodes`` nodes, shape (most_nodes + 1,); 0 below ``min_nodes``.

    The array is shared between callers and cannot be written to.

    Raises:
        InputError: a site's own objective failed, or gave no finite value for each size.
    """
    objective = find_objective(objective_name)
    sizes = trainer.most_nodes + 1
    try:
        with np.errstate(over="ignore"):  # reported below, in a sentence
            # A copy: an objective may hand out the trainer's own rates, which are shared and read-only.
            table = np.array(objective(trainer), dtype=float)
    except Exception as error:
        if read_aim(objective_name).objective in OBJECTIVES:
            raise
        raise InputError(
            f"The objective {objective_name!r} failed for trainer {trainer.id!r}: {type(error).__name__}: {error}."
        ) from error
    if table.shape != (sizes,) or not np.isfinite(table).all():
        raise InputError(
            f"The objective {objective_name!r} must give trainer {trainer.id!r} {sizes} finite values, "
            f"one for each size from 0 to {trainer.most_nodes} nodes; it gave {_described(table)}."
        )
    table[: trainer.min_nodes] = 0.0
    table.flags.writeable = False
    return table


def _described(table: NDArray[np.float64]) -> str:
    if table.ndim != 1:
        return f"an array of shape {table.shape}"
    if not np.isfinite(table).all():
        return f"{table[~np.isfinite(table)][0]} at {int(np.argmin(np.isfinite(table)))} nodes"
    return f"{len(table)} values"
