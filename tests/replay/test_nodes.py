"""Holes as a sequence of changes."""

from __future__ import annotations

from math import inf

import numpy as np

from freetrain.core.holes import sorted_holes
from freetrain.replay.nodes import node_changes


def test_nodes_join_and_leave_at_their_instants_and_are_told_with_their_ends() -> None:
    rows = np.array([(0, 0.0, 50.0), (1, 0.0, 100.0), (0, 60.0, 80.0)])
    holes = sorted_holes(("a", "b"), rows[:, 0].astype(np.int32), rows[:, 1], rows[:, 2], 0.0, 100.0)
    changes = [(change.at_s, change.joined, change.left) for change in node_changes(holes)]
    assert changes == [
        (0.0, {"a": 50.0, "b": inf}, []),
        (50.0, {}, ["a"]),
        (60.0, {"a": 80.0}, []),
        (80.0, {}, ["a"]),
    ]


def test_a_node_may_leave_and_another_join_at_once() -> None:
    node, start_s, end_s = np.array([1, 0], np.int32), np.array([0.0, 40.0]), np.array([40.0, 90.0])
    changes = list(node_changes(sorted_holes(("a", "b"), node, start_s, end_s, 0.0, 100.0)))
    assert [(change.at_s, change.joined, change.left) for change in changes[:2]] == [
        (0.0, {"b": 40.0}, []),
        (40.0, {"a": 90.0}, ["b"]),
    ]
