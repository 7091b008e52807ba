from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.holes import Holes, find_holes, seen_by_polls

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
    seen = {(one, end): start for one, start, end in _rows(seen_by_polls(holes, poll_s))}
    for one, start, end in _rows(holes):
        look = start if poll_s == 0 else -(-start // poll_s) * poll_s
        assert seen.pop((one, end), None) == (look if look < end else None)
    assert not seen


def _rows(holes: Holes) -> list[tuple[int, float, float]]:
    return list(zip(holes.node.tolist(), holes.start_s.tolist(), holes.end_s.tolist(), strict=True))
