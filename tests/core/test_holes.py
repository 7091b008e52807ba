""""""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core import holes as holes_module
from freetrain.core.holes import Holes, find_holes, order_by_node, seen_by_polls, some_nodes_at_a_time, taken

WINDOW_S = 50

intervals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-10, 60), st.integers(0, 30)).map(
        lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
    ),
    max_size=20,
)


@given(intervals)
def test_holes_are_exactly_the_seconds_in_which_a_node_has_no_job(busy: list[tuple[int, int, int]]) -> None:
    node, start_s, end_s = (np.array([row[column] for row in busy], dtype=float) for column in range(3))
    holes = find_holes(("a", "b", "c"), node.astype(np.int32), start_s, end_s, 0, WINDOW_S)
    idle = np.ones((3, WINDOW_S), dtype=bool)
    for which, start, end in busy:
        idle[which, max(start, 0) : max(end, 0)] = False
    found = np.zeros_like(idle)
    for which, start, end in zip(holes.node, holes.start_s, holes.end_s, strict=True):
        assert not found[which, int(start) : int(end)].any()
        found[which, int(start) : int(end)] = True
    assert (found == idle).all()


@given(intervals)
def test_holes_come_in_order_and_neither_overlap_nor_touch(busy: list[tuple[int, int, int]]) -> None:
    node, start_s, end_s = (np.array([row[column] for row in busy], dtype=float) for column in range(3))
    holes = find_holes(("a", "b", "c"), node.astype(np.int32), start_s, end_s, 0, WINDOW_S)
    assert (np.diff(holes.start_s) >= 0).all()
    for which in range(3):
        mine = holes.node == which
        assert (holes.start_s[mine][1:] > holes.end_s[mine][:-1]).all()


def test_a_machine_without_jobs_is_one_hole_per_node() -> None:
    nothing = np.array([])
    holes = find_holes(("a", "b"), nothing.astype(np.int32), nothing, nothing, 0, 7200)
    assert holes.idle_node_hours == 4.0
    assert holes.mean_idle_nodes == 2.0


def test_a_job_that_has_not_ended_is_busy_to_the_end() -> None:
    holes = find_holes(("a",), np.array([0], np.int32), np.array([10.0]), np.array([np.inf]), 0, 100)
    assert holes.length_s.tolist() == [10.0]


@given(intervals, st.integers(0, 12))
def test_who_looks_now_and_then_sees_each_hole_from_the_next_look_on(
    busy: list[tuple[int, int, int]], poll_s: int
) -> None:
    node, start_s, end_s = (np.array([row[column] for row in busy], dtype=float) for column in range(3))
    holes = find_holes(("a", "b", "c"), node.astype(np.int32), start_s, end_s, 0, WINDOW_S)
    seen = {(number, end): start for number, start, end in _rows(seen_by_polls(holes, poll_s))}
    for number, start, end in _rows(holes):
        look = start if poll_s == 0 else -(-start // poll_s) * poll_s
        assert seen.pop((number, end), None) == (look if look < end else None)
    assert not seen


def _rows(holes: Holes) -> list[tuple[int, float, float]]:
    return list(zip(holes.node.tolist(), holes.start_s.tolist(), holes.end_s.tolist(), strict=True))


NODES = 6
rows = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, 99), st.booleans()), max_size=40)


@given(rows, st.integers(1, 12), st.integers(1, 50))
def test_each_node_comes_once_and_with_all_its_rows_that_count(
    drawn: list[tuple[int, int, bool]], at_once: int, sorted_at_once: int
) -> None:
    node = np.array([row[0] for row in drawn], dtype=np.int32)
    counts = np.array([row[2] for row in drawn], dtype=bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holes_module, "_ROWS_AT_ONCE", at_once)
        patch.setattr(holes_module, "_ROWS_SORTED_AT_ONCE", sorted_at_once)
        parts = list(some_nodes_at_a_time(node, counts, NODES))
    assert [number for nodes, _ in parts for number in range(nodes.start, nodes.stop)] == list(range(NODES))
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
    monkeypatch.setattr(holes_module, "_ROWS_AT_ONCE", 50)
    apart = find_holes(names, node, start_s, start_s + dice.integers(0, 20, 200), 0.0, 1000.0)
    assert len(together) > NODES
    for name in ("node", "start_s", "end_s"):
        assert getattr(together, name).tolist() == getattr(apart, name).tolist()


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_values_are_taken_some_at_a_time(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes_module, "_ROWS_SORTED_AT_ONCE", at_once)
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
