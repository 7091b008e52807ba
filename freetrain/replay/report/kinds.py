"""Trainers that are alike, in one line of the table each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.trainer_run import Loss, TrainerRun

MOST_TRAINERS = 25
"""So many have a line of their own."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """Trainers with the same curve, limits, costs and target.

    Attributes:
        name: what their names have in common; the name of a single one.
        trainers: how many came in.
        completed: how many of them reached their target.
        samples: samples that they trained.
        node_hours: node-hours lent to them.
        evictions: nodes taken from them unasked.
        rescales: times they paid for a change of size that freetrain decided.
        lost_h: hours of training lost to all of these and to starting.
    """

    name: str
    trainers: int
    completed: int
    samples: float
    node_hours: float
    evictions: int
    rescales: int
    lost_h: float


def trainer_kinds(runs: Sequence[TrainerRun]) -> tuple[KindRow, ...]:
    """The kinds, most node-hours first; nothing where there are too many of them, or few trainers."""
    if len(runs) <= MOST_TRAINERS:
        return ()
    kinds: defaultdict[object, list[TrainerRun]] = defaultdict(list)
    for run in runs:
        one = run.trainer
        costs = one.scale_up_s, one.scale_down_s, one.forced_loss_s, one.start_s
        kinds[one.throughput, one.min_nodes, one.max_nodes, one.weight, one.target_samples, costs].append(run)
    if len(kinds) > MOST_TRAINERS:
        return ()
    rows = [_row(alike) for alike in kinds.values()]
    return tuple(sorted(rows, key=lambda row: (-row.node_hours, row.name)))


def _row(runs: Sequence[TrainerRun]) -> KindRow:
    return KindRow(
        _common_name([run.trainer.id for run in runs]),
        len(runs),
        sum(run.completed_s is not None for run in runs),
        sum(run.samples for run in runs),
        sum(run.node_s for run in runs) / SECONDS_PER_HOUR,
        sum(run.evicted_nodes for run in runs),
        sum(run.losses[Loss.SCALE_UP] + run.losses[Loss.SCALE_DOWN] for run in runs),
        sum(sum(run.lost_s.values()) for run in runs) / SECONDS_PER_HOUR,
    )


def _common_name(names: Sequence[str]) -> str:
    """ShuffleNet for ShuffleNet-0001, ShuffleNet-0002 …; the first name and … where nothing is alike."""
    if len(names) == 1:
        return names[0]
    first, last = min(names), max(names)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    common = first[:alike].rstrip("0123456789").rstrip("-_ .:")
    return common or f"{names[0]} …"
