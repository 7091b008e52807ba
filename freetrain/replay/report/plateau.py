"""Whether the number of trainers at once keeps idle nodes unused, and how many would use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.trainer_run import TrainerRun
from freetrain.showing.words import amount, count, number, share

_MATTERS = 0.01
_ALL_BUT = 0.01


@dataclass(frozen=True, slots=True)
class Plateau:
    """Idle nodes beyond all that the trainers that may run at once can use.

    Attributes:
        max_running: how many may.
        reach_nodes: most nodes that they can use together.
        beyond_node_hours: idle node-hours above that.
        share: their part of all idle node-hours.
        suffices: how many trainers at once could use all but 1 % of the idle node-hours.
        there_are: trainers that came in; fewer than may run at once: more trainers are needed, not another limit.
    """

    max_running: int
    reach_nodes: int
    beyond_node_hours: float
    share: float
    suffices: int
    there_are: int


def find_plateau(holes: Holes, runs: Sequence[TrainerRun], max_running: int) -> Plateau | None:
    """The plateau; None where it takes less than 1 % of the idle node-hours, or nobody could train at all."""
    most_nodes = sorted((run.trainer.most_nodes for run in runs), reverse=True)
    if not most_nodes or not len(holes):
        return None
    level, lasts_s = _time_at_level(holes)
    idle_s = float((level * lasts_s).sum())
    reach = sum(most_nodes[:max_running])
    beyond_s = _beyond_s(level, lasts_s, reach)
    if beyond_s < _MATTERS * idle_s:
        return None
    suffices = _level_for_all_but(level, lasts_s, _ALL_BUT * idle_s) / float(np.mean(most_nodes))
    return Plateau(
        max_running, reach, beyond_s / SECONDS_PER_HOUR, beyond_s / idle_s, max(ceil(suffices), 1), len(runs)
    )


def about_plateau(plateau: Plateau) -> str:
    """What it means, and what to do about it."""
    at_once = min(plateau.max_running, plateau.there_are)
    limited = (
        f"{count(at_once, 'trainer')} at once can use {count(plateau.reach_nodes, 'node')} at most: "
        f"{amount(plateau.beyond_node_hours)} idle node-hours, {share(plateau.share)} of all, lay above that. "
    )
    if plateau.there_are < plateau.max_running:
        return f"{limited}No more trainers came; about {number(plateau.suffices)} like them could use 99 % of all."
    return f"{limited}About {number(plateau.suffices)} (--max-running {plateau.suffices}) could use 99 % of all."


_Array = np.ndarray[tuple[int], np.dtype[np.float64]]


def _time_at_level(holes: Holes) -> tuple[_Array, _Array]:
    """How many nodes are idle, and for how many seconds so many are, in stretches of time."""
    at_s = np.concatenate([holes.start_s, holes.end_s])
    change = np.concatenate([np.ones(len(holes)), -np.ones(len(holes))])
    order = np.argsort(at_s, kind="stable")
    return np.cumsum(change[order])[:-1], np.diff(at_s[order])


def _beyond_s(level: _Array, lasts_s: _Array, reach: float) -> float:
    return float((np.maximum(level - reach, 0.0) * lasts_s).sum())


def _level_for_all_but(level: _Array, lasts_s: _Array, left_s: float) -> int:
    """The lowest number of nodes above which no more than so many node-seconds lie."""
    low, high = 0, int(level.max())
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _beyond_s(level, lasts_s, middle) <= left_s else (middle + 1, high)
    return low
