from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.classes import NodeClass
from freetrain.core.place import Place, Traits
from freetrain.core.problem import Problem
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.core.value import distinct_tables, total_value

CURVE = ((1, 10.0), (2, 18.0), (4, 30.0))


def value(
    trainer: Trainer,
    held: int,
    counts: list[int],
    ends_s: tuple[float | None, ...] = (None,),
    *,
    changes: float = 1.0,
) -> float:
    """Value for a trainer that has ``held`` nodes of the first class, with this many of each class."""
    nodes = tuple(
        Place(f"n{position}-{number}", end_s, trainer.id if position == 0 and number < held else None)
        for position, end_s in enumerate(ends_s)
        for number in range(4)
    )
    problem = Problem(0.0, nodes, (trainer,), horizon_s=100.0, objective="throughput", changes=changes)
    return total_value(problem, np.array([counts]))


def test_tables_that_are_asked_for_again_are_not_worked_out_again() -> None:
    terms, held, nodes = terms_of((Trainer("A", CURVE),), "throughput"), np.array([2]), NodeClass(100.0, False, {})
    tables, _ = distinct_tables(terms, held, nodes)
    again, _ = distinct_tables(terms, held.copy(), NodeClass(100.0, False, {None: ["n1"]}))
    assert again is tables
    assert not tables.flags.writeable
    assert distinct_tables(terms, held, replace(nodes, traits=Traits(watts=1.0)))[0] is not tables


def test_keeping_its_nodes_costs_a_trainer_nothing() -> None:
    assert value(Trainer("A", CURVE), 2, [2]) == 100 * 18


def test_growing_is_charged_at_the_old_rate() -> None:
    assert value(Trainer("A", CURVE, scale_up_s=5), 2, [4]) == 100 * 30 - 5 * 18


def test_shrinking_is_charged_at_the_old_rate() -> None:
    assert value(Trainer("A", CURVE, scale_down_s=7), 2, [1]) == 100 * 10 - 7 * 18
    assert value(Trainer("A", CURVE, scale_down_s=7), 2, [0]) == -7 * 18


def test_growing_and_shrinking_are_charged_as_often_as_sizes_change_and_starts_once() -> None:
    costs = Trainer("A", CURVE, scale_up_s=5, scale_down_s=7, start_s=30)
    assert value(costs, 2, [4], changes=3.0) == 100 * 30 - 3 * 5 * 18
    assert value(costs, 2, [1], changes=3.0) == 100 * 10 - 3 * 7 * 18
    assert value(costs, 2, [2], changes=3.0) == 100 * 18
    assert value(costs, 0, [2], changes=3.0) == (100 - 30) * 18


def test_a_known_end_comes_once_however_often_sizes_change() -> None:
    costs = Trainer("A", CURVE, scale_down_s=7)
    assert value(costs, 2, [2], (40.0,), changes=3.0) == value(costs, 2, [2], (40.0,)) == 40 * 18 - 7 * 18


@pytest.mark.parametrize("which", ["independent", "moldable"])
def test_trainers_whose_nodes_do_not_change_together_are_charged_once(which: str) -> None:
    costs = Trainer("A", CURVE, scale_down_s=7, start_s=30, **{which: True})
    for counts in [0], [2]:
        assert value(costs, 2, counts, changes=3.0) == value(costs, 2, counts)


@given(st.floats(1, 1e3), st.integers(0, 4), st.integers(0, 4))
def test_changes_count_as_if_growing_and_shrinking_cost_so_much_more(
    changes: float, held: int, nodes: int
) -> None:
    once = Trainer("A", CURVE, scale_up_s=5, scale_down_s=7, start_s=30, min_nodes=2)
    often = replace(once, scale_up_s=5 * changes, scale_down_s=7 * changes)
    assert value(once, held, [nodes], changes=changes) == pytest.approx(value(often, held, [nodes]))


def test_a_start_is_charged_at_the_new_rate_and_free_by_default() -> None:
    assert value(Trainer("A", CURVE), 0, [2]) == 100 * 18
    assert value(Trainer("A", CURVE, start_s=30), 0, [2]) == (100 - 30) * 18


def test_a_trainer_below_its_minimum_starts_rather_than_grows() -> None:
    assert value(Trainer("A", CURVE, min_nodes=2, start_s=30), 1, [2]) == (100 - 30) * 18


def test_nodes_that_leave_count_while_they_stay_and_hurt_once_when_they_go() -> None:
    trainer = Trainer("A", CURVE, forced_loss_s=3)
    expected = 40 * 30 + 60 * 18 - 3 * 30
    assert value(trainer, 2, [2, 2], (None, 40.0)) == pytest.approx(expected - 18 * trainer.scale_up_s)


def test_nodes_that_all_leave_end_the_training() -> None:
    assert value(Trainer("A", CURVE, forced_loss_s=3), 2, [2], (40.0,)) == pytest.approx(40 * 18 - 3 * 18)


def test_new_nodes_train_only_when_they_have_booted_and_the_others_go_on() -> None:
    assert value(Trainer("A", CURVE, boot_s=20, scale_up_s=5), 2, [4]) == 20 * 18 + 80 * 30 - 5 * 18
    assert value(Trainer("A", CURVE, boot_s=20, start_s=30), 0, [2]) == (100 - 20 - 30) * 18


def test_who_keeps_or_shrinks_waits_for_no_boot() -> None:
    assert value(Trainer("A", CURVE, boot_s=20), 2, [2]) == 100 * 18
    assert value(Trainer("A", CURVE, boot_s=20, scale_down_s=7), 2, [1]) == 100 * 10 - 7 * 18


def test_nodes_that_are_held_train_and_hurt_while_others_boot() -> None:
    trainer = Trainer("A", CURVE, boot_s=60, scale_up_s=5, forced_loss_s=3)
    until_booted = 40 * 18 - 3 * 18  # both nodes leave, and for 20 s there is none
    assert value(trainer, 2, [2, 2], (40.0, None)) == until_booted + 40 * 18 - 5 * 18


def test_a_node_that_leaves_before_it_has_booted_is_of_no_use_and_no_loss() -> None:
    trainer = Trainer("A", CURVE, boot_s=50, scale_up_s=5, forced_loss_s=3)
    with_it = value(trainer, 1, [2, 1], (None, 40.0))
    assert with_it == 50 * 10 + 50 * 18 - 5 * 10 == value(trainer, 1, [2, 0], (None, 40.0))


def test_a_node_of_a_filler_is_of_use_from_its_boot_on() -> None:
    one = filler(start_s=5, boot_s=20, forced_loss_s=10)
    assert value(one, 1, [3]) == 100 * 30 - 20 * 20 - 5 * 20
    assert value(one, 1, [1, 1], (None, 50.0)) == 100 * 10 + (50 - 20 - 5 - 10) * 10


LINEAR = ((1, 10.0), (4, 40.0))


def filler(**costs: float) -> Trainer:
    return Trainer("F", LINEAR, scale_up_s=99, independent=True, **costs)  # type: ignore[arg-type]


def test_nodes_that_work_each_by_itself_pay_alone_for_their_start_and_their_release() -> None:
    assert value(filler(start_s=5), 1, [3]) == 100 * 30 - 5 * 20
    assert value(filler(start_s=5), 0, [3]) == 100 * 30 - 5 * 30
    assert value(filler(scale_down_s=7), 3, [1]) == 100 * 10 - 7 * 20


def test_nodes_that_work_each_by_itself_lose_what_runs_there_as_they_leave_and_hurt_no_other() -> None:
    one = filler(scale_down_s=0, forced_loss_s=20)
    assert value(one, 3, [3, 0], (None, 40.0)) == 100 * 30
    assert value(one, 2, [2, 1], (None, 40.0)) == 100 * 20 + (40 - 20) * 10
    assert value(one, 2, [2, 1], (80.0, 40.0)) == (80 - 20) * 20 + (40 - 20) * 10


def test_a_node_that_stays_too_short_to_be_of_use_is_worth_nothing_to_it() -> None:
    one = filler(start_s=10, forced_loss_s=50)
    assert value(one, 0, [0, 1], (None, 59.0)) < 0 < value(one, 0, [0, 1], (None, 61.0))


def moldable(**costs: float) -> Trainer:
    return Trainer("M", LINEAR, min_nodes=2, scale_up_s=99, moldable=True, **costs)  # type: ignore[arg-type]


def test_a_size_that_stays_is_worth_what_it_does_until_its_first_node_leaves() -> None:
    one = moldable(start_s=5, forced_loss_s=7)
    assert value(one, 0, [3, 0], (None, 40.0)) == (100 - 5) * 30
    assert value(one, 0, [3, 1], (None, 40.0)) == (40 - 5 - 7) * 40
    assert value(one, 3, [3, 0], (80.0, 40.0)) == (80 - 7) * 30
    assert value(moldable(scale_down_s=9), 3, [0]) == -9 * 30


def test_a_size_that_stays_does_nothing_until_all_of_its_nodes_have_booted() -> None:
    one = moldable(boot_s=20, forced_loss_s=0)
    assert value(one, 0, [2, 1], (None, 50.0)) == (50 - 20) * 30
    assert value(one, 3, [3, 0], (50.0, 20.0)) == 50 * 30


@pytest.mark.parametrize(
    "other",
    [
        {"min_nodes": 2},
        {"max_nodes": 3},
        {"scale_up_s": 1.0},
        {"scale_down_s": 1.0},
        {"forced_loss_s": 99.0},
        {"start_s": 7.0},
        {"boot_s": 7.0},
        {"independent": True},
        {"moldable": True},
        {"throughput": ((1, 10.0), (4, 39.0))},
    ],
)
def test_trainers_share_a_table_only_where_they_are_alike_and_have_as_many_nodes(other: dict[str, Any]) -> None:
    one = Trainer("a", ((1, 10.0), (4, 40.0)))
    terms = terms_of((one, replace(one, id="b"), replace(one, id="c", **other), replace(one, id="d")), "speedup")
    _, row = distinct_tables(terms, np.array([2, 2, 2, 3]), NodeClass(600.0, False, {}))
    assert row[0] == row[1]
    assert len({int(value) for value in row[1:]}) == 3
