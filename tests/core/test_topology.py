"""Switches between the nodes, and rings through them."""

from __future__ import annotations

import pytest

from freetrain.core.topology import FLAT, Topology, crossings, ring_order

TREE = Topology(
    {"a1": "A", "a2": "A", "b1": "B", "b2": "B", "c1": "C"},
    {"A": "west", "C": "west", "B": "east", "west": "core", "east": "core"},
)


@pytest.mark.parametrize(("node", "links"), [("a1", 0), ("a2", 2), ("c1", 4), ("b1", 6), ("unknown", 6)], ids=str)
def test_the_distance_is_the_links_on_the_way(node: str, links: int) -> None:
    assert TREE.distance("a1", node) == links
    assert TREE.distance(node, "a1") == links


def test_where_nothing_is_known_all_nodes_are_on_one_leaf() -> None:
    assert FLAT.distance("n1", "n2") == 2
    assert crossings(("n1", "n2", "n3"), FLAT) == 0


def test_a_ring_enters_every_leaf_and_every_switch_above_once() -> None:
    ring = ring_order(("b2", "a1", "c1", "b1", "a2"), TREE)
    assert ring == ("b1", "b2", "a1", "a2", "c1")
    assert crossings(ring, TREE) == 3
    assert crossings(("a1", "b1", "a2", "b2"), TREE) == 4


def test_switches_above_each_other_in_a_circle_are_refused() -> None:
    with pytest.raises(ValueError, match="is above itself"):
        Topology({"n1": "A"}, {"A": "B", "B": "A"})
