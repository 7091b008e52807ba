from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.policies.solver.piecewise import linear_runs, pieces_on


def runs(values: list[float], sizes: list[int], held_nodes: int = 0) -> list[tuple[int, int]]:
    return list(linear_runs(np.array(values), sizes, held_nodes))


def test_a_straight_line_is_one_run_but_for_what_is_held() -> None:
    line = [0.0, 2.0, 4.0, 6.0, 8.0]
    assert runs(line, [1, 2, 3, 4]) == [(1, 4)]
    assert runs(line, [0, 1, 2, 3, 4], held_nodes=2) == [(0, 1), (2, 2), (3, 4)]


def test_a_bend_and_a_missing_size_begin_a_new_run() -> None:
    assert runs([0.0, 2.0, 4.0, 5.0, 6.0], [1, 2, 3, 4]) == [(1, 2), (3, 4)]
    assert runs([0.0, 2.0, 4.0, 6.0, 8.0], [1, 2, 4]) == [(1, 2), (4, 4)]
    assert runs([0.0], []) == []


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 11),
)
def test_the_pieces_say_what_the_table_says(steps: list[int], chosen: set[int], held_nodes: int) -> None:
    table = np.cumsum(np.array(steps, dtype=float))
    sizes = sorted(size for size in chosen if size < len(table))
    found = runs(table.tolist(), sizes, held_nodes)
    assert [size for min_nodes, max_nodes in found for size in range(min_nodes, max_nodes + 1)] == sizes
    for piece in pieces_on(table, found):
        for size in range(piece.min_nodes, piece.max_nodes + 1):
            assert piece.value + piece.slope * (size - piece.min_nodes) == pytest.approx(table[size])
        if held_nodes in range(piece.min_nodes, piece.max_nodes + 1):
            assert piece.min_nodes == piece.max_nodes
