from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.decision import Placement
from freetrain.core.plan import Lend, PlaceServers, Release, plan_moves, plan_serving

NODES = tuple("abcdefgh")


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    owner = {node: draw(st.sampled_from(["", "A", "B", "C"])) for node in NODES}
    wanted = {trainer: tuple(node for node in NODES if owner[node] == trainer) for trainer in "ABC"}
    return {trainer: nodes for trainer, nodes in wanted.items() if nodes}


@given(placements(), placements())
def test_every_prefix_of_a_plan_is_safe_and_the_whole_leads_to_what_was_wanted(
    now: Placement, wanted: Placement
) -> None:
    held = {trainer: set(now.get(trainer, ())) for trainer in "ABC"}
    for action in plan_moves(now, wanted):
        if isinstance(action, Release):
            assert held[action.trainer] >= set(action.nodes)
            held[action.trainer] -= set(action.nodes)
        else:
            assert not any(set(action.nodes) & nodes for nodes in held.values()), "a node has two owners"
            held[action.trainer] |= set(action.nodes)
        for trainer, nodes in held.items():
            assert nodes <= set(now.get(trainer, ())) | set(wanted.get(trainer, ()))
    assert held == {trainer: set(wanted.get(trainer, ())) for trainer in "ABC"}


@given(placements(), placements())
def test_a_plan_carried_out_leaves_nothing_to_do(now: Placement, wanted: Placement) -> None:
    assert list(plan_moves(wanted, wanted)) == []
    assert all(action.nodes for action in plan_moves(now, wanted))


def test_releases_come_before_lends() -> None:
    assert list(plan_moves({"A": ("n1", "n2")}, {"A": ("n1",), "B": ("n2",)})) == [
        Release(("n2",), trainer="A"),
        Lend("B", ("n2",)),
    ]


def test_servers_move_where_they_are_not_where_they_are_to_be() -> None:
    now = {"A": ("n1",), "B": ("n2",), "C": ("n3",)}
    wanted = {"A": ("n1",), "B": ("n2", "n4"), "D": ("n5",)}
    moves = [PlaceServers("B", ("n2", "n4")), PlaceServers("C", ()), PlaceServers("D", ("n5",))]
    assert list(plan_serving(now, wanted)) == moves


@given(placements(), placements())
def test_servers_that_have_been_moved_need_no_move(now: Placement, wanted: Placement) -> None:
    held_after = dict(now)
    for action in plan_serving(now, wanted):
        held_after[action.trainer] = action.nodes
    assert {trainer: nodes for trainer, nodes in held_after.items() if nodes} == wanted
    assert list(plan_serving(wanted, wanted)) == []
