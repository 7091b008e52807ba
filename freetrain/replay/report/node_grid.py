"""The node × time picture as a grid of states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.replay.course import ReplayRecord

BUSY, IDLE, FIRST_COLOUR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class NodeGrid:
    """What each pictured node did in each column of time.

    Attributes:
        nodes: names of the nodes, one per row.
        states: BUSY, IDLE (and not lent) or FIRST_COLOUR + the colour of the trainer that had the node,
            whichever covers most of the column, shape (nodes, columns).
        from_s: start of the first column.
        until_s: end of the last.
    """

    nodes: tuple[str, ...]
    states: NDArray[np.uint8]
    from_s: float
    until_s: float


def node_grid(record: ReplayRecord, columns: int, colours: int) -> NodeGrid:
    """States of the pictured nodes; trainers take the colours in turn, by order of admission."""
    holes, nodes = record.holes, record.timeline.pictured
    lent = _lent_shares(record, columns, colours)
    ever_idle = _ever_idle_shares(record, columns)
    shares = np.concatenate(
        [1 - ever_idle[:, None], ever_idle[:, None] - lent.sum(axis=1, keepdims=True), lent], 1
    )
    states = shares.argmax(axis=1).astype(np.uint8)
    return NodeGrid(nodes, states, holes.from_s, holes.until_s)


def _lent_shares(record: ReplayRecord, columns: int, colours: int) -> NDArray[np.float64]:
    """Share of each column in which a trainer of each colour had the node, shape (nodes, colours, columns)."""
    row = {name: number for number, name in enumerate(record.timeline.pictured)}
    colour = {run.trainer.id: rank % colours for rank, run in enumerate(record.runs)}
    lent = [stay for stay in record.timeline.stays() if stay.holder]
    return _shares(
        np.array([row[stay.node] * colours + colour[stay.holder] for stay in lent], np.intp),
        _columns(record, np.array([stay.from_s for stay in lent]), columns),
        _columns(record, np.array([stay.until_s for stay in lent]), columns),
        (len(row) * colours, columns),
    ).reshape(len(row), colours, columns)


def _ever_idle_shares(record: ReplayRecord, columns: int) -> NDArray[np.float64]:
    """Share of each column in which the node was idle, lent or not, shape (nodes, columns)."""
    # From the holes: the stays end where the replay has nothing left to do, the holes go on.
    holes = record.holes
    row_of = np.full(len(holes.node_names), -1, np.intp)
    position = {name: number for number, name in enumerate(holes.node_names)}
    pictured = record.timeline.pictured
    row_of[[position[name] for name in pictured]] = np.arange(len(pictured))
    row = row_of[holes.node]
    shown = row >= 0
    start, end = _columns(record, holes.start_s[shown], columns), _columns(record, holes.end_s[shown], columns)
    return _shares(row[shown], start, end, (len(pictured), columns))


def _columns(record: ReplayRecord, at_s: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    return np.clip((at_s - record.holes.from_s) / record.holes.duration_s * columns, 0, columns)


def _shares(
    row: NDArray[np.intp], start: NDArray[np.float64], end: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """How much of each unit column the intervals [start, end) of each row cover."""
    # An interval is a step up at its start less one at its end; a step within column k covers 1 − fraction
    # of k and all of the columns after it: two entries under a running sum.
    steps = np.zeros((shape[0], shape[1] + 2))
    for at, sign in ((start, 1.0), (end, -1.0)):
        column = np.floor(at).astype(np.intp)
        fraction = at - column
        np.add.at(steps, (row, column), sign * (1 - fraction))
        np.add.at(steps, (row, column + 1), sign * fraction)
    covered: NDArray[np.float64] = np.cumsum(steps, axis=1)[:, : shape[1]]
    return covered
