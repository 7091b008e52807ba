"""The map of the nodes, and why each is lent or not."""

from __future__ import annotations

import re

from freetrain.daemon.reports.status import NodeGroup
from freetrain.web.page import MAX_ROWS, draw_map, gather_reasons


def test_each_node_of_a_small_machine_says_what_it_is() -> None:
    drawn = draw_map([NodeGroup("n[9-10]", "lent", "7"), NodeGroup("n8", "not lent", why="job 9 runs here")])
    assert [shape.title for shape in drawn.shapes] == [
        "n8: not lent, job 9 runs here", "n9: lent to 7", "n10: lent to 7",
    ]  # fmt: skip
    assert drawn.shapes[1].path == "M21 0h18v18h-18z"
    assert (drawn.width, drawn.height) == (63, 21)
    assert list(drawn.counts.items())[:2] == [("lent", 2), ("asked for", 0)]


def test_a_large_machine_is_a_few_shapes_that_cover_every_node_once() -> None:
    groups = [NodeGroup("c[0000-4998/2]", "free"), NodeGroup("c[0001-0999/2,1001-4999/2]", "lent", "7")]
    drawn = draw_map(groups)
    assert len(drawn.shapes) == 2
    cells = sum(int(width) // 4 for shape in drawn.shapes for width in re.findall(r"h(\d+)v", shape.path))
    assert cells == sum(drawn.counts.values()) == 5000
    assert drawn.width <= 1000
    assert drawn.height <= 100


def test_nodes_side_by_side_are_one_box() -> None:
    drawn = draw_map([NodeGroup("c[000-299]", "free")])
    (shape,) = drawn.shapes
    assert shape.path.count("M") == drawn.height // 9


def test_without_nodes_there_is_no_map() -> None:
    assert draw_map([]).shapes == ()


def test_like_reasons_are_one_row_and_say_what_would_change_it() -> None:
    used = "used by the site"
    busy = [NodeGroup(f"n{n}", "not lent", why=f"job {700 + n} runs here", verdict=used) for n in range(5)]
    short = NodeGroup("m1", "not lent", why="its hole ends in 23 s")
    lent = [NodeGroup("a[1-2]", "lent", "7", until_s=50.0), NodeGroup("a3", "lent", "8", until_s=40.0)]
    first, second, third = gather_reasons([*busy, short, *lent])
    assert (first.state, first.count, first.nodes, first.until_s, first.advice) == ("lent", 3, "a[1-3]", 40.0, "")
    assert (second.count, second.why, second.nodes) == (5, "a job runs here", "n[0-4]")
    assert second.advice == "It can be lent once that job has ended."
    assert third.why == "its hole ends in some seconds"


def test_rows_and_lists_of_nodes_stay_short() -> None:
    apart = [NodeGroup(f"n{number}", "not lent", why=f"because {'x' * number}") for number in range(100)]
    assert len(gather_reasons(apart)) == MAX_ROWS
    (row,) = gather_reasons([NodeGroup(f"rack{number}-{number * 7}", "free") for number in range(1000)])
    assert row.count == 1000
    assert len(row.nodes) < 150
    assert row.nodes.endswith(", …")
