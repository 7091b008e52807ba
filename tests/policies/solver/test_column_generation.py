"""The master: within limits it combines only allowed columns, and it always has a solution."""

from __future__ import annotations

import numpy as np
import pytest

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.policies.solver.column_generation import Master
from freetrain.policies.solver.trainer_types import TrainerTypes, no_limits, types_of


def three_alike() -> tuple[TrainerTypes, Master]:
    """Nobody has a node yet; one node is worth 10 a second to each, two are worth 18."""
    trainers = tuple(Trainer(f"t{number}", ((1, 10.0), (2, 18.0)), scale_up_s=0.0) for number in range(3))
    nodes = tuple(Place(f"n{number}", None if number < 2 else 60.0) for number in range(4))
    trainers, _ = types_of(Problem(0.0, nodes, trainers, 120.0, "throughput"))
    master = Master(trainers)
    for column in ([0, 0], [1, 0], [0, 1], [1, 1], [0, 2]):
        master.add(0, np.array(column))
    return trainers, master


def taken_of(master: Master, column: list[int]) -> float:
    return float(master.relax()[2][(master.counts == column).all(axis=1)].sum())


def growing(master: Master) -> float:
    return float(master.relax()[2][master.counts.any(axis=1)].sum())


def test_no_more_trainers_grow_than_may_and_no_fewer_than_must() -> None:
    trainers, master = three_alike()
    free = master.relax()[0]
    assert growing(master) == pytest.approx(3)
    master.apply_limits(no_limits(trainers).at_most_growing(0, 1))
    assert growing(master) == pytest.approx(1)
    assert master.relax()[1].growth[0] > 0
    master.apply_limits(no_limits(trainers).more_growing_than(0, 2))
    assert growing(master) == pytest.approx(3)
    master.apply_limits(no_limits(trainers))
    assert master.relax()[0] == pytest.approx(free)
    assert master.relax()[1].growth[0] == 0.0


def test_columns_outside_the_limits_are_taken_only_where_there_is_no_other() -> None:
    trainers, master = three_alike()
    master.apply_limits(no_limits(trainers).at_most([0], 0, 0))
    assert taken_of(master, [1, 0]) == taken_of(master, [1, 1]) == 0
    master.apply_limits(no_limits(trainers).at_most([0], 1, -1))
    worth, _, taken = master.relax()
    assert worth < 0
    assert taken.sum() == pytest.approx(3)
