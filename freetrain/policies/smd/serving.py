"""Servers: how many a trainer gets beside its nodes, and on which of these they run.

SMD's inner problem decides how many, whichever policy decided how many nodes. Where they run is a matter of how
long the nodes are expected to stay; of those that stay equally long a placer may prefer some.
"""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.place import node_of
from freetrain.core.placement import Placement
from freetrain.core.problem import Problem
from freetrain.core.servers import Servers, Serving
from freetrain.core.trainer import Trainer
from freetrain.policies.smd.inner import ServerModel, best_servers
from freetrain.policies.stages import Placer, RatingServers

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
    return best_servers(ServerModel(servers.step_s, 1.0), nodes, min(servers.most, nodes))


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
    rate = placer.rate_for_server if isinstance(placer, RatingServers) else _alike

    def claim(node: str) -> tuple[bool, bool, float, float, str]:
        ends_soon = life_s[node] < min(MOVES_BEFORE_S, problem.horizon_s)
        return ends_soon, node not in now, -life_s[node], -rate(node, tuple(life_s)), node

    return tuple(sorted(sorted(life_s, key=claim)[: count_servers(servers, len(life_s))]))


def _alike(node: str, nodes: Sequence[str]) -> float:
    return 0.0
