from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core import node_rows
from freetrain.core.holes import find_holes
from freetrain.core.node_rows import order_by_node, some_nodes_at_a_time, taken

NODES = 6
rows = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, 99), st.booleans()), max_size=40)


@given(rows, st.integers(1, 12), st.integers(1, 50))
def test_each_node_comes_once_and_with_all_its_rows_that_count(
    drawn: list[tuple[int, int, bool]], at_once: int, sorted_at_once: int
) -> None:
    node = np.array([row[0] for row in drawn], dtype=np.int32)
    counts = np.array([row[2] for row in drawn], dtype=bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_rows, "_ROWS_AT_ONCE", at_once)
        patch.setattr(node_rows, "_ROWS_SORTED_AT_ONCE", sorted_at_once)
        parts = list(some_nodes_at_a_time(node, counts, NODES))
    assert [each for nodes, _ in parts for each in range(nodes.start, nodes.stop)] == list(range(NODES))
    for nodes, own in parts:
        expected = [row for row, (one, _, is_in) in enumerate(drawn) if is_in and nodes.start <= one < nodes.stop]
        assert own.tolist() == expected


@given(rows)
def test_rows_are_put_in_order_of_node_and_time(drawn: list[tuple[int, int, bool]]) -> None:
    node = np.array([row[0] for row in drawn], dtype=np.int32)
    at_s = np.array([row[1] for row in drawn], dtype=np.float64)
    found = [drawn[row][:2] for row in order_by_node(node, at_s, 99.0)]
    assert found == sorted(row[:2] for row in drawn)


def test_holes_are_the_same_however_many_nodes_are_looked_at_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(7)
    node, start_s = dice.integers(0, NODES, 200).astype(np.int32), dice.integers(0, 900, 200).astype(float)
    names = tuple(map(str, range(NODES)))
    together = find_holes(names, node, start_s, start_s + dice.integers(0, 20, 200), 0.0, 1000.0)
    dice = np.random.default_rng(7)
    dice.integers(0, NODES, 200), dice.integers(0, 900, 200)
    monkeypatch.setattr(node_rows, "_ROWS_AT_ONCE", 50)
    apart = find_holes(names, node, start_s, start_s + dice.integers(0, 20, 200), 0.0, 1000.0)
    assert len(together) > NODES
    for name in ("node", "start_s", "end_s"):
        assert getattr(together, name).tolist() == getattr(apart, name).tolist()


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_values_are_taken_some_at_a_time(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_rows, "_ROWS_SORTED_AT_ONCE", at_once)
    values, index = np.array([5.0, 6.0, 7.0]), np.array([2, 0, 0, 1, 2], np.int32)
    assert taken(values, index).tolist() == [7.0, 5.0, 5.0, 6.0, 7.0]
    assert taken(values, index[:0]).tolist() == []


def test_nodes_that_share_an_interval_have_the_holes_of_nodes_with_an_interval_each() -> None:
    dice = np.random.default_rng(3)
    start_s = dice.integers(0, 900, 60).astype(float)
    end_s = start_s + dice.integers(0, 20, 60)
    node, interval = dice.integers(0, NODES, 200).astype(np.int32), dice.integers(0, 60, 200).astype(np.int32)
    names = tuple(map(str, range(NODES)))
    shared = find_holes(names, node, start_s, end_s, 0.0, 1000.0, interval)
    own = find_holes(names, node, start_s[interval], end_s[interval], 0.0, 1000.0)
    assert len(shared) > NODES
    for name in ("node", "start_s", "end_s"):
        assert getattr(shared, name).tolist() == getattr(own, name).tolist()
