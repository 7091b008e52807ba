from __future__ import annotations

import pytest

from freetrain.core.trainer import Trainer

CURVE = ((1, 10.0), (2, 18.0), (4, 30.0))


def test_a_trainer_stands_still_below_its_minimum() -> None:
    trainer = Trainer("a", CURVE, min_nodes=2)
    assert [trainer.rate(nodes) for nodes in (0, 1, 2, 3)] == [0.0, 0.0, 18.0, 24.0]


def test_more_nodes_than_the_curve_knows_add_nothing() -> None:
    trainer = Trainer("a", CURVE, max_nodes=64)
    assert trainer.most_nodes == 4
    assert trainer.rate(9) == trainer.rate(4)


def test_a_maximum_within_the_curve_holds() -> None:
    assert Trainer("a", CURVE, max_nodes=3).most_nodes == 3


def test_an_eviction_costs_as_much_as_shrinking_unless_told_otherwise() -> None:
    assert Trainer("a", CURVE, scale_down_s=5).eviction_s == 5
    assert Trainer("a", CURVE, scale_down_s=5, forced_loss_s=60).eviction_s == 60


def test_a_known_end_costs_a_change_in_good_order_or_an_eviction_where_that_is_less() -> None:
    assert Trainer("a", CURVE, scale_down_s=5, forced_loss_s=60).known_end_s == 5
    assert Trainer("a", CURVE, scale_down_s=5, forced_loss_s=1).known_end_s == 1
    assert Trainer("a", CURVE, scale_down_s=5, forced_loss_s=60, moldable=True).known_end_s == 60


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(ValueError, match="min_nodes 5 is more than max_nodes 3"):
        Trainer("a", CURVE, min_nodes=5, max_nodes=3)


def test_a_minimum_past_the_curve_can_never_run() -> None:
    assert not Trainer("a", CURVE, min_nodes=8).can_run
