"""Stretches of time in which nothing changes on a node, and what is free then of what it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import order_by_node
from freetrain.replay.logs.busy import BusyTimes

Numbers = NDArray[np.float64]
_Kind = TypeVar("_Kind", np.float64, np.bool_)


@dataclass(frozen=True, slots=True)
class Held:
    """What jobs hold of one resource.

    Attributes:
        amount: what each job holds of each of its nodes; nan: unknown.
        known: sizes of the nodes; nan: unknown.
        least: what a job on several nodes holds of each of them at the least.
        by_row: ``amount`` is by row of the busy times: what jobs hold differs from node to node.
    """

    amount: Numbers
    known: Numbers
    least: float
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of time in which nothing changes on a node, of some nodes, in order of node and time.

    Attributes:
        rows: the busy times of these nodes.
        job: whose each of them is; one behind the last job's: the node is out of service.
        row: which of these begins or ends with the stretch, shape (stretches,).
        sign: 1 where it begins, -1 where it ends.
        node: the node, counted from the first of these.
        first: the first stretch of each node that has any.
        at_s: when the stretch begins.
        lasts_s: how long it lasts; means nothing where a node's last row ends.
        has_jobs: whether the node has jobs, and is in service.
        jobs: number of jobs.
        nodes: number of these nodes.
    """

    rows: NDArray[np.int32]
    job: NDArray[np.int32]
    row: NDArray[np.int64]
    sign: NDArray[np.int8]
    node: NDArray[np.int32]
    first: NDArray[np.int64]
    at_s: Numbers
    lasts_s: Numbers
    has_jobs: NDArray[np.bool_]
    jobs: int
    nodes: int

    def of_jobs(self, given: NDArray[_Kind], by_row: bool = False) -> NDArray[_Kind]:
        """What is given by job, or by row of the busy times, by stretch; 0 where a node is out of service."""
        own = given[np.minimum(self.rows if by_row else self.job, len(given) - 1)]
        own[self.job >= self.jobs] = 0
        return own[self.row]

    def held(self, amount: Numbers) -> Numbers:
        """What jobs hold together during each stretch, of so much by stretch."""
        sums: Numbers = np.cumsum(amount * self.sign)
        return sums

    def most(self, amount: Numbers) -> Numbers:
        """The most of it on each node, shape (nodes,); 0 where nothing happens."""
        return self._of_each(np.maximum.reduceat, amount)

    def by_node(self, seconds: Numbers) -> Numbers:
        """Sums by node, shape (nodes,)."""
        return self._of_each(np.add.reduceat, seconds)

    def _of_each(self, reduceat: Callable[[Numbers, NDArray[np.int64]], Numbers], by_stretch: Numbers) -> Numbers:
        """One number for each node, 0 where nothing happens."""
        found = np.zeros(self.nodes)
        if len(self.first):
            found[self.node[self.first]] = reduceat(by_stretch, self.first)
        return found


@dataclass(frozen=True, slots=True)
class Free:
    """What is free: the nodes' sizes, whether one of them is a lower bound, and what no job holds, by stretch.

    ``amount`` is nan where a job is there of which the log does not say what it holds.
    """

    size: Numbers
    is_least: bool
    amount: Numbers


def stretches_of(
    busy: BusyTimes, nodes: slice, rows: NDArray[np.int32], jobs: int, from_s: float, until_s: float
) -> Stretches:
    """The stretches of these nodes, whose rows these are."""
    node, interval = busy.node[rows] - nodes.start, busy.interval[rows]
    at_s = np.concatenate([busy.start_s[interval], busy.end_s[interval]]).clip(from_s, until_s)
    order = order_by_node(np.tile(node, 2), at_s - from_s, until_s - from_s)
    begins, at_s = order < len(rows), at_s[order]
    row = np.where(begins, order, order - len(rows))
    sign = np.where(begins, np.int8(1), np.int8(-1))
    has_jobs = np.cumsum(sign, dtype=np.int32) > 0
    is_outage = interval >= jobs
    if is_outage.any():
        has_jobs &= np.cumsum(sign * is_outage[row], dtype=np.int32) == 0
    count = nodes.stop - nodes.start
    steps_on = 2 * np.bincount(node, minlength=count)
    return Stretches(
        rows,
        interval,
        row,
        sign,
        np.repeat(np.arange(count, dtype=np.int32), steps_on),
        (np.cumsum(steps_on) - steps_on)[steps_on > 0],
        at_s,
        np.diff(at_s, append=at_s[-1:]),
        has_jobs,
        jobs,
        count,
    )


def free_of(stretches: Stretches, held: Held, alone: NDArray[np.bool_], nodes: slice) -> Free:
    """What is free of one resource; ``alone`` is meant by stretch."""
    known = held.known[nodes]
    amount = stretches.of_jobs(held.amount, held.by_row)
    unknown = np.isnan(amount)
    amount[unknown] = 0.0
    sure = np.where(alone, amount, np.minimum(amount, held.least))
    lasting = np.where(stretches.lasts_s > 0, stretches.held(sure), 0.0)
    at_least = np.maximum(stretches.most(lasting), stretches.most(amount))
    size = np.where(np.isnan(known), at_least, known)
    free = (size[stretches.node] - stretches.held(amount)).clip(min=0.0)
    if unknown.any():
        free[stretches.held(unknown.astype(np.float64)) > 0.5] = np.nan
    return Free(size, bool((np.isnan(known) & (at_least > 0)).any()), free)
