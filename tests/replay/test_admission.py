"""Who is let in, and who of them competes."""

from __future__ import annotations

from math import inf

from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Request
from freetrain.replay.trainers import PRESETS, TrainerQueue


def trainer(name: str, fewest: int = 1, submitted_s: float | None = None) -> Trainer:
    return Trainer(name, ((1, 10.0), (8, 80.0)), min_nodes=fewest, submitted_s=submitted_s)


def ids(trainers: list[Trainer]) -> list[str]:
    return [one.id for one in trainers]


def test_so_many_are_let_in_as_may_compete_in_order_of_submission() -> None:
    admission = TrainerQueue([trainer(name) for name in "ABC"], 2)
    assert ids(admission.let_in([], 4, 0.0)) == ["A", "B"]
    assert admission.next_arrival_s([1, 1], 4, 0.0) == inf
    assert admission.next_arrival_s([1], 4, 5.0) == 5.0
    assert ids(admission.let_in([1], 4, 5.0)) == ["C"]
    assert admission.is_empty


def test_who_has_not_been_submitted_yet_is_expected() -> None:
    admission = TrainerQueue([trainer("A", submitted_s=30.0)], 2)
    assert admission.let_in([], 4, 0.0) == []
    assert admission.next_arrival_s([], 4, 0.0) == 30.0
    assert ids(admission.let_in([], 4, 30.0)) == ["A"]


def test_who_needs_more_nodes_than_there_are_takes_nobodys_place() -> None:
    admission = TrainerQueue([trainer("A", fewest=5), trainer("B"), trainer("C")], 1)
    assert ids(admission.let_in([], 4, 0.0)) == ["A", "B"]
    assert admission.next_arrival_s([5, 1], 4, 0.0) == inf


def test_without_any_node_an_endless_queue_is_not_let_in() -> None:
    admission = TrainerQueue(PRESETS["hpo"], 3)
    assert len(admission.let_in([], 0, 0.0)) == 3


def test_an_endless_queue_of_trainers_that_cannot_run_is_not_let_in_either() -> None:
    admission = TrainerQueue((trainer(str(number), fewest=5) for number in range(10**6)), 3)
    assert len(admission.let_in([], 4, 0.0)) == 1000


def test_those_compete_that_could_run_whoever_came_first_first() -> None:
    admission = TrainerQueue([], 2)
    needs = (("A", 5), ("B", 1), ("C", 2), ("D", 1))
    here = tuple(Request(trainer(name, fewest), "everybody") for name, fewest in needs)
    assert [one.id for one in admission.competing(here, 4)] == ["B", "C"]
    assert [one.id for one in admission.competing(here, 5)] == ["A", "B"]


def test_where_all_compete_they_are_the_same_ones() -> None:
    here = Request(trainer("A"), "everybody"), Request(trainer("B", fewest=3), "everybody")
    assert TrainerQueue([], 2).competing(here, 3) is here
    assert [one.id for one in TrainerQueue([], 2).competing(here, 2)] == ["A"]
    assert [one.id for one in TrainerQueue([], 1).competing(here, 3)] == ["A"]
