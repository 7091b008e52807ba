"""SMD (INFOCOM 2021) on idle nodes: each trainer at its fastest size or not at all, by what completing is worth.

Its inner problem, the servers that make a step shortest beside so many nodes, is asked whichever policy decided
how many nodes. Where servers run is a matter of how long nodes are expected to stay, then of the placer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.core.decision import Allocation, Placement
from freetrain.core.place import node_of
from freetrain.core.problem import Problem
from freetrain.core.terms import Sizes, Table
from freetrain.core.throughput import Floats, non_negative_least_squares
from freetrain.core.trainer import Servers, Serving, Trainer
from freetrain.policies.ageing import PATIENCE_S, overdue_sizes, say_turns, serve_first
from freetrain.policies.aiming import HEEDED, asked_of
from freetrain.policies.needs import STEP_MODEL, TARGET, say_missing, work_of
from freetrain.policies.spread import best_by_tables
from freetrain.policies.stages import Placer, RatingServers

LEAST_POINTS = 5
"""Least number of different sizes: with fewer the coefficients are not determined."""


@dataclass(frozen=True, slots=True)
class ServerModel:
    """Seconds of a synchronous step on w workers and p servers: a·M/w + b + c·w/p + d·w + e·p.

    Attributes:
        coefficients: a (per sample), b (fixed), c (sending to the servers), d and e (per connection); none is < 0.
        batch: samples of a step over all workers, M.
    """

    coefficients: tuple[float, float, float, float, float]
    batch: float

    def step_s(self, workers: Floats | float, servers: Floats | float) -> Floats:
        """Seconds of a step; for arrays, of each pair."""
        a, b, c, d, e = self.coefficients
        workers, servers = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
        step_s: Floats = a * self.batch / workers + b + c * workers / servers + d * workers + e * servers
        return step_s


@dataclass(frozen=True, slots=True)
class Point:
    """A measurement."""

    workers: int
    servers: int
    step_s: float


def fit_servers(points: Sequence[Point], batch: float) -> ServerModel:
    """The model with the least squares of relative errors, no coefficient below 0.

    With five coefficients all subsets of them can be tried: of those whose free least squares are not negative one
    is the best.

    Raises:
        ValueError: fewer than five different sizes were measured, or a time is not above 0.
    """
    if len({(point.workers, point.servers) for point in points}) < LEAST_POINTS:
        raise ValueError(f"the model needs {LEAST_POINTS} different sizes to be fitted")
    measured_s = np.array([point.step_s for point in points])
    if not (measured_s > 0).all():
        raise ValueError("a step takes more than 0 seconds")
    workers = np.array([point.workers for point in points], dtype=np.float64)
    servers = np.array([point.servers for point in points], dtype=np.float64)
    terms = np.stack([batch / workers, np.ones_like(workers), workers / servers, workers, servers], axis=1)
    # Relative errors count; each column is scaled to 1, as samples and servers are orders of magnitude apart.
    relative = terms / measured_s[:, None]
    scale = np.abs(relative).max(axis=0)
    best, _ = non_negative_least_squares(relative / scale, np.ones(len(points)), np.ones(len(scale)))
    a, b, c, d, e = (best / scale).tolist()
    return ServerModel((a, b, c, d, e), batch)


def fastest(model: ServerModel, most_workers: int, most_servers: int) -> tuple[int, int]:
    """Workers and servers of the shortest step, by full search."""
    # Some thousand pairs: to try all is quicker than anything cleverer.
    steps_s = model.step_s(*np.mgrid[1 : most_workers + 1, 1 : most_servers + 1])
    workers, servers = divmod(int(steps_s.argmin()), most_servers)
    return workers + 1, servers + 1


MOVES_BEFORE_S = 300.0
"""A server moves so long before the end of its node: its nodes hear of it a moment later, and then boot one."""

_MIN_NODES = 2
"""Workers of one node need no server for their gradients."""


def count_servers(servers: Servers, nodes: int) -> int:
    """The best number of servers beside so many nodes, at most one on a node; without a model one."""
    if nodes < _MIN_NODES:
        return 0
    if servers.step_s is None:
        return 1
    counts = np.arange(1, min(servers.most, nodes) + 1, dtype=np.float64)
    # argmin takes the first: of equals the smallest number of servers.
    return int(counts[ServerModel(servers.step_s, 1.0).step_s(nodes, counts).argmin()])


def best_step_s(servers: Servers, nodes: int) -> float | None:
    """Seconds of a step on so many nodes with the best number of servers; None: no steps were measured."""
    if servers.step_s is None:
        return None
    a, b, c, d, e = servers.step_s
    count = count_servers(servers, nodes)
    return a / nodes + b + d * nodes + (c * nodes / count + e * count if count else 0.0)


def place_servers(problem: Problem, placement: Placement, placer: Placer) -> Serving:
    """The nodes that have a server, of each trainer that uses servers.

    1. A server stays where it is, unless its node is about to be taken back and another is not.
    2. Others go to the nodes that are expected to stay longest.
    3. Of those that stay equally long the placer's rating counts, then the order of their names.
    """
    serving = {
        trainer.id: _hosts(problem, trainer, trainer.servers, names, placer)
        for trainer in problem.trainers
        if trainer.servers is not None and (names := placement.get(trainer.id))
    }
    return {trainer: nodes for trainer, nodes in serving.items() if nodes}


def _hosts(
    problem: Problem, trainer: Trainer, servers: Servers, names: Sequence[str], placer: Placer
) -> tuple[str, ...]:
    life_s = {node_of(name): problem.classes[problem.class_of_node[name]].life_s for name in names}
    now = problem.serving.get(trainer.id, ())
    rate = placer.rate_for_server if isinstance(placer, RatingServers) else lambda node, nodes: 0.0

    def claim(node: str) -> tuple[bool, bool, float, float, str]:
        # Within a short horizon no end is seen before: there every node would end soon.
        ends_soon = life_s[node] < min(MOVES_BEFORE_S, problem.horizon_s)
        return ends_soon, node not in now, -life_s[node], -rate(node, tuple(life_s)), node

    return tuple(sorted(sorted(life_s, key=claim)[: count_servers(servers, len(life_s))]))


SIZES = ("fastest", "menu")
"""Words for the sizes that may be chosen, the default first."""
_HOUR_S = 3600.0
_DAY_H = 24.0
_STEEPNESS = 0.2


class Smd:
    """Inner problem: the fastest size of each trainer. Outer problem: the knapsack of those worth most.

    In the method of SMD (INFOCOM 2021) for trainers of whole nodes. Where a trainer uses parameter servers and
    its steps were measured, the fastest size is that of the shortest step over nodes and servers; these run
    beside the workers and take no node. What a size is worth follows from the throughput in any case. freetrain
    takes a deadline of a day from now for each: what is complete sooner is worth more, however long it has
    waited, and so it is the patience that brings long trainings on. A trainer's own deadline is no part of SMD's
    worth, by which a training that names an early one only loses: where the objective counts deadlines, what it
    needs counts more often. Sizes not worth their electricity are none.

    Args:
        sizes: ``fastest``, or ``menu``: smaller sizes may be chosen, too, freetrain's extension.
        patience: seconds after which a trainer that has not had its turn comes first; 0: never.
    """

    needs_past = ("done_samples",)
    heeds = HEEDED
    weighs = "what its completion is worth"

    def __init__(self, sizes: str = "fastest", patience: float = PATIENCE_S, name: str = "smd") -> None:
        self._menu = sizes == "menu"
        self._patience_s = patience
        self._name = name

    def decide(self, problem: Problem) -> Allocation:
        """Sizes whose completions are worth most together, those first whose turn it is."""
        if not problem.held.size:
            return Allocation(problem.held, self._name)
        allowed = problem.terms.possible & asked_of(problem).may_have(problem.terms.possible.shape[1])
        turns = overdue_sizes(problem, allowed, self._patience_s)
        values = serve_first(self._weigh(problem, turns), turns)
        notes = (*say_missing((TARGET, STEP_MODEL), problem.trainers), *say_turns(problem, turns))
        return best_by_tables(problem, values, self._name, notes)

    def weigh(self, problem: Problem) -> Table:
        """Worth of completing at each size, shape (trainers, sizes); -inf where the size is not looked at."""
        return self._weigh(problem, np.zeros(len(problem.trainers), dtype=np.int64))

    def _weigh(self, problem: Problem, turns: Sizes) -> Table:
        possible, asked, work = problem.terms.possible, asked_of(problem), work_of(problem)
        values, may_have = np.zeros(possible.shape), possible & asked.may_have(possible.shape[1])
        looked_at = np.zeros(possible.shape, dtype=bool)
        for row, trainer in enumerate(problem.trainers):
            sizes = np.flatnonzero(may_have[row, : int(work.most_nodes[row]) + 1])[1:].tolist()
            valued = sizes
            if sizes and not self._menu:
                sizes = [fastest := _fastest(trainer, sizes), *([int(turns[row])] if turns[row] else [])]
                valued = [int(asked.needed[row]), fastest, *sizes]
            left = max(float(work.target_samples[row] - work.done_samples[row]), 0.0)
            for size in valued:
                values[row, size] = _worth(trainer, left, int(problem.held_nodes[row]), size)
            looked_at[row, [0, *sizes]] = True
        return np.where(looked_at, asked.heed(values), -np.inf)


def _fastest(trainer: Trainer, sizes: Sequence[int]) -> int:
    """SMD's inner problem, all sizes tried; the smallest of those that are equally fast."""
    if trainer.servers is not None and trainer.servers.step_s is not None:
        steps_s = {size: best_step_s(trainer.servers, size) or 0.0 for size in sizes}
        return min(sizes, key=lambda size: (steps_s[size], size))
    return max(sizes, key=lambda size: (trainer.rate(size), -size))


def _worth(trainer: Trainer, left_samples: float, held: int, size: int) -> float:
    rate = trainer.rate(size)
    if rate <= 0:
        return 0.0
    to_go_s = left_samples / rate + trainer.change_s(held, size)
    return sigmoid(to_go_s / _HOUR_S, trainer.weight, _STEEPNESS, _DAY_H)


def sigmoid(seconds_to_go: float, worth: float, steepness: float, deadline: float) -> float:
    """Worth of a completion after so long: all of it early, half of it at the deadline, nothing much later.

    With a steepness of 0 it is half of it whenever it is.
    """
    # math.exp overflows beyond 709.
    exponent = min(max(steepness * (seconds_to_go - deadline), -700.0), 700.0)
    return worth / (1 + math.exp(exponent))
