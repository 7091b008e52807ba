from __future__ import annotations

import numpy as np

from freetrain.core.trainer import Trainer
from freetrain.replay.course import ReplayRecord
from freetrain.replay.report.series import BUSY, FIRST_COLOUR, IDLE, node_grid
from freetrain.replay.trainers import CURVES
from tests.replay.report.conftest import make_holes, make_record


def test_states_are_those_of_each_instant() -> None:
    holes = make_holes([(0, 100, 300), (1, 0, 1000), (2, 500, 800)], 3, 1000)
    trainer = Trainer("only", ((1, 10.0),), submitted_s=holes.from_s + 400)
    grid = node_grid(make_record(holes, (trainer,)), 10, 12)
    assert grid.nodes == ("n000", "n001", "n002")
    assert grid.states.tolist() == [
        [BUSY, IDLE, IDLE, *[BUSY] * 7],
        [*[IDLE] * 4, *[FIRST_COLOUR] * 6],
        [*[BUSY] * 5, *[IDLE] * 3, BUSY, BUSY],
    ]


def test_a_column_shows_what_covers_most_of_it() -> None:
    holes = make_holes([(0, 20, 80), (1, 0, 10), (1, 40, 50), (1, 70, 80)], 2, 100)
    assert node_grid(make_record(holes, ()), 1, 12).states.tolist() == [[IDLE], [BUSY]]


def test_grid_covers_about_as_much_as_the_stays(record: ReplayRecord) -> None:
    grid = node_grid(record, 5000, 12)
    lent_h = sum(stay.until_s - stay.from_s for stay in record.timeline.stays() if stay.holder) / 3600
    column_h = record.holes.duration_s / 5000 / 3600
    assert abs((grid.states >= FIRST_COLOUR).sum() * column_h / lent_h - 1) < 0.02


def test_colours_come_round_again() -> None:
    holes = make_holes([(node, 0, 1000) for node in range(3)], 3, 1000)
    trainers = tuple(Trainer(f"t{number}", CURVES["AlexNet"], max_nodes=1) for number in range(3))
    grid = node_grid(make_record(holes, trainers), 4, 2)
    assert np.bincount(grid.states.ravel()).tolist() == [0, 0, 8, 4]


def test_no_pictured_node_makes_an_empty_grid() -> None:
    assert node_grid(make_record(make_holes([], 2, 600), ()), 10, 12).states.shape == (0, 10)
