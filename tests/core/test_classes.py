from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.classes import Offer, group_nodes

NOW_S = 1_000.0


def test_nodes_that_leave_together_are_one_class_whoever_has_them() -> None:
    nodes = [
        Offer("a", NOW_S + 30),
        Offer("b"),
        Offer("c", NOW_S + 30, "7"),
        Offer("d", NOW_S + 500, "7"),
    ]
    stay, leave = group_nodes(nodes, NOW_S, 120.0)
    assert (stay.life_s, stay.taken_back, stay.names) == (120.0, False, {None: ["b"], "7": ["d"]})
    assert (leave.life_s, leave.taken_back, leave.names) == (30.0, True, {None: ["a"], "7": ["c"]})
    assert leave.count == 2


def test_nodes_that_are_due_already_are_in_no_class() -> None:
    assert group_nodes([Offer("a", NOW_S), Offer("b", NOW_S - 1, "7")], NOW_S, 120.0) == ()


@given(st.lists(st.tuples(st.none() | st.integers(-50, 300), st.none() | st.sampled_from("789"))))
def test_every_node_that_stays_a_while_is_in_the_class_of_its_life(
    drawn: list[tuple[int | None, str | None]],
) -> None:
    nodes = [
        Offer(f"n{number}", None if end is None else NOW_S + end, holder)
        for number, (end, holder) in enumerate(drawn)
    ]
    classes = group_nodes(nodes, NOW_S, 120.0)
    assert [one.life_s for one in classes] == sorted({one.life_s for one in classes}, reverse=True)
    found = {
        name: (one.life_s, holder) for one in classes for holder, names in one.names.items() for name in names
    }
    assert found == {
        node.name: (120.0 if node.free_until_s is None else min(node.free_until_s - NOW_S, 120.0), node.held_by)
        for node in nodes
        if node.free_until_s is None or node.free_until_s > NOW_S
    }
    assert sum(one.count for one in classes) == len(found)
