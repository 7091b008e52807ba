""""""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.classes import group_nodes
from freetrain.core.place import Place, Traits
from freetrain.core.problem import Problem, problem_from_json, problem_to_dict
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.core.value import total_value
from freetrain.core.verify import verify_counts

NOW_S = 1_000.0


def test_nodes_that_leave_together_are_one_class_whoever_has_them() -> None:
    nodes = [
        Place("a", NOW_S + 30),
        Place("b"),
        Place("c", NOW_S + 30, "7"),
        Place("d", NOW_S + 500, "7"),
    ]
    stay, leave = group_nodes(nodes, NOW_S, 120.0)
    assert (stay.life_s, stay.taken_back, stay.names) == (120.0, False, {None: ["b"], "7": ["d"]})
    assert (leave.life_s, leave.taken_back, leave.names) == (30.0, True, {None: ["a"], "7": ["c"]})
    assert leave.count == 2


def test_nodes_that_are_due_already_are_in_no_class() -> None:
    assert group_nodes([Place("a", NOW_S), Place("b", NOW_S - 1, "7")], NOW_S, 120.0) == ()


@given(st.lists(st.tuples(st.none() | st.integers(-50, 300), st.none() | st.sampled_from("789"))))
def test_every_node_that_stays_a_while_is_in_the_class_of_its_life(
    drawn: list[tuple[int | None, str | None]],
) -> None:
    nodes = [
        Place(f"n{number}", None if end is None else NOW_S + end, holder)
        for number, (end, holder) in enumerate(drawn)
    ]
    classes = group_nodes(nodes, NOW_S, 120.0)
    assert [node_class.life_s for node_class in classes] == sorted(
        {node_class.life_s for node_class in classes}, reverse=True
    )
    found = {
        name: (node_class.life_s, holder)
        for node_class in classes
        for holder, names in node_class.names.items()
        for name in names
    }
    assert found == {
        node.name: (120.0 if node.until_s is None else min(node.until_s - NOW_S, 120.0), node.holder)
        for node in nodes
        if node.until_s is None or node.until_s > NOW_S
    }
    assert sum(node_class.count for node_class in classes) == len(found)


CURVE = ((1, 10.0), (2, 18.0), (4, 30.0))


def problem(
    trainer: Trainer, *nodes: tuple[str, str | None], ends_s: tuple[float | None, ...] = (None,)
) -> Problem:
    """Nodes of these kinds and holders, each once for each end."""
    offers = tuple(
        Place(f"{kind}{number}-{end_s}", end_s, holder, Traits(kind))
        for end_s in ends_s
        for number, (kind, holder) in enumerate(nodes)
    )
    return Problem(0.0, offers, (trainer,), horizon_s=100.0, objective="throughput")


def test_without_kinds_everybody_has_one_choice_of_everything() -> None:
    choices = problem(Trainer("A", CURVE), ("", None), ("", "A")).choices
    assert choices.is_free
    assert choices.may_join.tolist() == [[True]]


def test_who_says_nothing_may_have_any_kind_one_at_a_time() -> None:
    choices = problem(Trainer("A", CURVE), ("a", None), ("b", None)).choices
    assert choices.trainer.tolist() == [0, 0]
    assert choices.may_join.tolist() == [[True, False], [False, True]]


def test_who_has_nodes_has_no_choice_left_but_theirs() -> None:
    trainer = Trainer("A", CURVE, choices=(KindChoice(("a",)), KindChoice(("b", "c"), 2.0)))
    choices = problem(trainer, ("a", None), ("b", "A"), ("c", None)).choices
    assert choices.may_join.tolist() == [[False, True, True]]
    assert choices.terms.worth[0, 1] == 20.0


def test_who_has_nodes_that_do_not_go_together_gets_no_other_and_is_as_fast_as_on_the_slowest() -> None:
    trainer = Trainer("A", CURVE, choices=(KindChoice(("a",), 3.0), KindChoice(("b",), 2.0)))
    choices = problem(trainer, ("a", "A"), ("b", "A"), ("c", None)).choices
    assert not choices.may_join.any()
    assert choices.covers.tolist() == [[True, True, False]]
    assert choices.terms.worth[0, 2] == 2 * 18.0


def test_a_moldable_trainer_has_a_choice_for_each_time_at_which_nodes_leave() -> None:
    one = problem(Trainer("A", CURVE, moldable=True), ("a", None), ("b", None), ends_s=(None, 50.0))
    choices = one.choices
    assert [(life.traits.kind, life.life_s) for life in one.classes] == [
        ("a", 100),
        ("b", 100),
        ("a", 50),
        ("b", 50),
    ]
    assert choices.may_join.astype(int).tolist() == [[1, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1]]
    assert choices.last.tolist() == [1, 3, 1, 3]
    assert choices.made_by(np.array([[0, 1, 0, 0]])).tolist() == [2]


def test_a_moldable_trainer_that_has_nodes_keeps_them_or_gives_all_up() -> None:
    one = problem(Trainer("A", CURVE, moldable=True), ("", "A"), ("", "A"), ("", None))
    assert not one.choices.may_join.any()
    assert verify_counts(one, np.array([[2]])) == verify_counts(one, np.array([[0]])) == ()
    for nodes in (1, 3):
        wrong = verify_counts(one, np.array([[nodes]]))
        assert f"trainer A gets {nodes} nodes instead of its 2: its size stays" in wrong


def test_a_trainer_is_worth_what_it_is_on_the_kind_that_it_gets() -> None:
    trainer = Trainer("A", CURVE, choices=(KindChoice(("a",)), KindChoice(("b",), 0.5)))
    one = problem(trainer, ("a", None), ("b", None), ("b", None))
    assert total_value(one, np.array([[1, 0]])) == 100 * 10
    assert total_value(one, np.array([[0, 2]])) == 100 * 9
    assert total_value(one, np.array([[1, 1]])) == -np.inf


def test_nodes_of_two_kinds_that_leave_together_hurt_once() -> None:
    trainer = Trainer("A", CURVE, forced_loss_s=3, choices=(KindChoice(("a", "b")),))
    one = problem(trainer, ("a", None), ("b", None), ends_s=(40.0,))
    assert total_value(one, np.array([[1, 1]])) == pytest.approx(40 * 18 - 3 * 18)
    assert total_value(one, np.array([[1, 0]])) == pytest.approx(40 * 10 - 3 * 10)


def test_nodes_that_may_not_go_together_are_found_out() -> None:
    one = problem(Trainer("A", CURVE), ("a", None), ("b", None))
    assert verify_counts(one, np.array([[1, 0]])) == ()
    assert verify_counts(one, np.array([[1, 1]])) == ("trainer A gets nodes that it may not have together: a, b",)


def test_a_kind_that_is_not_among_its_choices_is_found_out() -> None:
    held = problem(Trainer("A", CURVE, choices=(KindChoice(("b",)),)), ("a", None), ("a", "A"))
    assert verify_counts(held, np.array([[1]])) == ()
    assert verify_counts(held, np.array([[2]])) == ("trainer A gets nodes that it may not have together: a",)


def test_kinds_come_back_from_json() -> None:
    trainer = Trainer("A", CURVE, choices=(KindChoice(("a",)), KindChoice(("b",), 0.5)))
    one = problem(trainer, ("a", None), ("b", "A"))
    document = problem_to_dict(one)
    assert [node["kind"] for node in document["nodes"]] == ["a", "b"]
    assert document["trainers"][0]["choices"][1] == {"kinds": ["b"], "speed": 0.5}
    assert problem_from_json(json.dumps(document)) == one


def test_a_kind_stands_in_one_choice_only() -> None:
    with pytest.raises(ValueError, match="one of its choices only"):
        Trainer("A", CURVE, choices=(KindChoice(("a", "b")), KindChoice(("b",))))
