"""Needs: what a policy has to know of trainings, how many lack it, and what is assumed of these.

Without a target the worth of a training's completion is unknown. It is taken to have a day's work left at its
fastest rate, on an equal share of the nodes at most: so the assumption is the same for all curves, and no training
gets everything because its end is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes
from freetrain.core.trainer import Trainer
from freetrain.policies.aiming import asked_of
from freetrain.policies.equal_share import equal_sizes

DAY_S = 86400.0
# A target is never 0, since parts of it are divided by it.
_LEAST_RATE = 1e-9
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that a policy has to know besides the problem.

    Attributes:
        what: the fact, and who states it.
        assumed: assumption where it is not known, a clause.
        lack: words for what is lacking, as ``no target``.
        is_lacked_by: whether a training lacks it; None: it is not a matter of trainings.
    """

    what: str
    assumed: str
    lack: str = ""
    is_lacked_by: Callable[[Trainer], bool] | None = None


PROGRESS = Need("samples done, from the trainings' progress", "that nothing is done")
TARGET = Need(
    "target in the tag, target_samples in a file",
    "a day's work at its fastest rate, on an equal share of the nodes at most",
    "no target",
    lambda trainer: trainer.target_samples is None and trainer.rescales,
)
GRADIENTS = Need(
    "[links], and gradients in the tag, to reserve bandwidth",
    "that it sends nothing",
    "no size of their gradients",
    lambda trainer: not trainer.bytes_per_sample and trainer.rescales,
)
STEP_MODEL = Need(
    "the measured steps of those with parameter servers",
    "that one server is best",
    "no measured steps of their servers",
    lambda trainer: trainer.servers is not None and trainer.servers.step_s is None,
)
SWITCHES = Need(
    "the switches: scontrol show topology, or nodes_per_leaf in the machine file", "that all nodes are on one leaf"
)
DATA_WAIT = Need(
    "how long trainings wait for data, from their progress; parts of nodes (lend.share)", "that none waits"
)


def say_missing(needs: Sequence[Need], trainers: Sequence[Trainer]) -> Iterator[str]:
    """Sentences on what trainings lack of these, and what is assumed."""
    for need in needs:
        lacked_by = need.is_lacked_by
        lacking = [trainer.id for trainer in trainers if lacked_by is not None and lacked_by(trainer)]
        if lacking:
            named = ", ".join(lacking[:_MOST_NAMED]) + (" …" if len(lacking) > _MOST_NAMED else "")
            yield (
                f"{len(lacking)} of {len(trainers)} trainings name {need.lack} ({named}): "
                f"assumed is {need.assumed}."
            )


@dataclass(frozen=True, slots=True)
class TrainingWork:
    """Work done and to do of trainings, assumed where it is unknown; shape (trainers,) each."""

    done_samples: NDArray[np.float64]
    target_samples: NDArray[np.float64]
    most_nodes: Sizes


def work_of(problem: Problem) -> TrainingWork:
    """The work of a problem's trainings."""
    done = np.array([problem.done_samples.get(trainer.id, 0.0) for trainer in problem.trainers])
    targets, most = done.copy(), np.minimum(problem.terms.most_nodes, problem.node_count)
    endless = [row for row, trainer in enumerate(problem.trainers) if trainer.target_samples is None]
    # Shares are only computed where somebody names no target.
    share = equal_sizes(asked_of(problem), problem.node_count, problem.held_nodes) if endless else most
    for row, trainer in enumerate(problem.trainers):
        if trainer.target_samples is not None:
            targets[row] = trainer.target_samples
            continue
        sizes = np.flatnonzero(problem.terms.possible[row])
        least = int(sizes[sizes > 0].min(initial=problem.node_count + 1))
        most[row] = min(most[row], max(int(share[row]), least))
        fastest = max(map(trainer.rate, sizes[sizes <= most[row]].tolist()), default=0.0)
        targets[row] += DAY_S * max(fastest, _LEAST_RATE)
    return TrainingWork(done, targets, most)
