from __future__ import annotations

import re

from freetrain.daemon.reports.status import NodeGroup
from freetrain.web.nodes import draw_map, in_order


def test_nodes_come_in_the_order_that_people_expect() -> None:
    assert in_order(["c10", "c9", "b2-n11", "b2-n3", "login"]) == ["b2-n3", "b2-n11", "c9", "c10", "login"]


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
