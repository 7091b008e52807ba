"""Holes as a sequence of changes; which nodes are idle, and who has them."""

from __future__ import annotations

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.classes import group_nodes, holders_of
from freetrain.core.holes import sorted_holes
from freetrain.core.place import Place
from freetrain.replay.nodes import IdleNodes, node_changes


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


NAMES = st.sampled_from("abcdef")
HOLDERS = st.sampled_from([None, "t1", "t2"])
happenings = st.lists(
    st.tuples(st.just("join"), NAMES)
    | st.tuples(st.just("leave"), NAMES)
    | st.tuples(st.just("hold"), st.lists(NAMES, unique=True), HOLDERS)
    | st.tuples(st.just("look"))
)


@given(happenings)
def test_it_knows_what_a_list_of_all_nodes_would_show(happened: list[tuple]) -> None:
    idle, holder, seen = IdleNodes(), dict[str, str | None](), set[str]()
    for what, *of in happened:
        if what == "join" and of[0] not in holder:
            idle.join(of[0], None)
            holder[of[0]] = None
        elif what == "leave" and of[0] in holder:
            assert idle.leave(of[0]) == holder.pop(of[0])
        elif what == "hold":
            names = [name for name in of[0] if name in holder]
            idle.hold(names, of[1])
            holder |= dict.fromkeys(names, of[1])
        elif what == "look":
            idle.note_seen()
            seen = set(holder)
        offers = tuple(Place(name, holder=its) for name, its in holder.items())
        assert idle.offers == offers
        assert sorted(idle.alike, key=lambda offer: offer.name) == sorted(offers, key=lambda offer: offer.name)
        assert (set(idle.came), idle.gone) == (set(holder) - seen, seen - set(holder))
        assert holders_of(idle.alike) == holders_of(offers)


def test_nodes_that_nobody_tells_apart_are_one_class_that_stays() -> None:
    idle = IdleNodes()
    assert group_nodes(idle.alike, 0.0, 60.0) == ()
    for name in "abc":
        idle.join(name, None)
    idle.hold("b", "t1")
    (one,) = group_nodes(idle.alike, 0.0, 60.0)
    assert (one.life_s, one.taken_back, dict(one.names)) == (60.0, False, {None: ("a", "c"), "t1": ("b",)})


def test_an_end_is_known_as_long_as_the_node_is_idle() -> None:
    idle = IdleNodes()
    idle.join("a", 10.0)
    assert idle.offers == (Place("a", 10.0),)
    idle.leave("a")
    idle.join("a", None)
    assert idle.offers == (Place("a"),)


def test_what_somebody_has_is_in_the_order_in_which_he_got_it() -> None:
    idle = IdleNodes()
    for name in "fedcba":
        idle.join(name, None)
    idle.hold("cafe", "t1")
    assert idle.of("t1") == ("c", "a", "f", "e")
    assert idle.of("nobody") == ()
