"""SMD's inner problem: how many workers and servers make one training's step shortest, within its own limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.policies.smd.speed import ServerModel

Amounts = tuple[float, ...]
"""So much of each resource, in an order that all share."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a training may have.

    Attributes:
        worker: what a worker takes of each resource.
        server: what a parameter server takes.
        most: what all of them may take.
        most_workers: how many workers at most.
        most_servers: how many servers at most.
    """

    worker: Amounts
    server: Amounts
    most: Amounts
    most_workers: int = 64
    most_servers: int = 64

    def demand(self, workers: int, servers: int) -> Amounts:
        """What so many take."""
        return tuple(workers * w + servers * s for w, s in zip(self.worker, self.server, strict=True))

    def most_workers_beside(self, servers: int) -> int:
        """How many workers it may have with so many servers."""
        room = (
            (most - servers * s + 1e-9) / w
            for w, s, most in zip(self.worker, self.server, self.most, strict=True)
            if w
        )
        return max(min(self.most_workers, *map(math.floor, room)), 0)

    def allow(self, workers: int, servers: int) -> bool:
        """Whether it may have so many."""
        within = 1 <= workers <= self.most_workers and 1 <= servers <= self.most_servers
        return within and all(
            taken <= most + 1e-9 for taken, most in zip(self.demand(workers, servers), self.most, strict=True)
        )


def fastest(model: ServerModel, limits: Limits) -> tuple[int, int] | None:
    """Workers and servers of the shortest step, by trying all; None: it may not even have one of each."""
    workers, servers = np.mgrid[1 : limits.most_workers + 1, 1 : limits.most_servers + 1]
    allowed = np.ones(workers.shape, dtype=bool)
    for w, s, most in zip(limits.worker, limits.server, limits.most, strict=True):
        allowed &= workers * w + servers * s <= most + 1e-9
    if not allowed.any():
        return None
    step_s = np.where(allowed, model.step_s(workers, servers), np.inf)
    best = int(np.argmin(step_s))
    return int(workers.flat[best]), int(servers.flat[best])


def best_servers(model: ServerModel, workers: int, most_servers: int) -> int:
    """With how many servers so many workers make the shortest step; the fewest of those that are equally good."""
    servers = np.arange(1, most_servers + 1, dtype=np.float64)
    return int(servers[np.argmin(model.step_s(workers, servers))])


def fastest_on_grid(model: ServerModel, limits: Limits, epsilon: float = 0.05) -> tuple[int, int] | None:
    """The same within 1 + ``epsilon``, by trying few numbers of servers, each 1 + epsilon times the one before.

    With p servers the step is a·M/w + (c/p + d)·w and what does not depend on w: the best whole w lies beside
    sqrt(a·M / (c/p + d)), within the limits. The optimum's p° lies between a p that is tried and (1 + epsilon)
    times it: with the same w that p is allowed, as it takes less, and only c·w/p grows, by epsilon at most.
    """
    a, _, c, d, _ = model.coefficients
    found: list[tuple[int, int]] = []
    for p in _grid(limits.most_servers, epsilon):
        per_worker = c / p + d
        best = math.sqrt(a * model.batch / per_worker) if per_worker > 0 else limits.most_workers
        most = limits.most_workers_beside(p)
        for w in {min(max(math.floor(best), 1), most), min(max(math.ceil(best), 1), most)}:
            if limits.allow(w, p):
                found.append((w, p))
    return min(found, key=lambda pair: (float(model.step_s(*pair)), pair), default=None)


def _grid(most: int, epsilon: float) -> Iterator[int]:
    """Whole numbers from 1, each the largest within 1 + epsilon times the one before, or the next."""
    number = 1
    while number <= most:
        yield number
        number = max(number + 1, math.floor(number * (1 + epsilon)))


def on_the_way(model: ServerModel, limits: Limits) -> Sequence[tuple[int, int]]:
    """Smaller sizes, too: with each number of workers the best number of servers, the fastest of all last.

    This is what ``smd-menu`` chooses from, freetrain's extension.
    """
    best: list[tuple[int, int]] = []
    for workers in range(1, limits.most_workers + 1):
        servers = [p for p in range(1, limits.most_servers + 1) if limits.allow(workers, p)]
        if servers:
            best.append((workers, min(servers, key=lambda p: float(model.step_s(workers, p)))))
    best.sort(key=lambda pair: -float(model.step_s(*pair)))
    return best
