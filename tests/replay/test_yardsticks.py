"""The best division of nodes when changing it costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.replay import yardsticks
from freetrain.replay.yardsticks import Divider

POINTS = st.lists(st.floats(0.1, 50.0), min_size=1, max_size=5)


def best(trainers: Sequence[Trainer], nodes: int) -> float:
    """By trying all."""
    tables = [
        [(size, worth) for size, worth in enumerate(worth_per_s(trainer, "throughput")) if size == 0 or worth > 0]
        for trainer in trainers
    ]
    fitting = (sizes for sizes in product(*tables) if sum(size for size, _ in sizes) <= nodes)
    return max(sum(float(worth) for _, worth in sizes) for sizes in fitting)


@given(st.lists(st.tuples(POINTS, st.integers(1, 5)), min_size=1, max_size=3), st.integers(1, 2))
def test_no_other_division_is_worth_more(curves: Sequence[tuple[Sequence[float], int]], alike: int) -> None:
    trainers = [
        Trainer(f"{number}-{copy}", tuple(enumerate(points, 1)), min_nodes=min(fewest, len(points)))
        for number, (points, fewest) in enumerate(curves)
        for copy in range(alike)
    ]
    divider = Divider("throughput")
    for nodes in range(1, 12):
        said, known = divider.best_worth_per_s(trainers, nodes), best(trainers, nodes)
        assert known * (1 - 1e-9) <= said <= known * (1 + 5e-4)


def test_the_bound_is_taken_where_the_best_division_comes_close_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many nodes those that make no whole step are few."""
    many = [Trainer(f"t{number}", ((8, 100.0), (16, 190.0)), min_nodes=8) for number in range(400)]
    monkeypatch.setattr(yardsticks, "best_sizes", None)
    whole, more = (Divider("throughput").best_worth_per_s(many, nodes) for nodes in (4800, 4802))
    assert whole < more < whole * (1 + 5e-4)
    monkeypatch.undo()
    assert Divider("throughput").best_worth_per_s(many[:2], 30) == best(many[:2], 30)


def test_steps_answer_where_values_lie_on_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yardsticks, "price_out", None)
    divider = Divider("throughput")
    trainers = [Trainer(name, ((1, 10.0), (4, 34.0), (8, 50.0))) for name in "ab"]
    worths = [divider.best_worth_per_s(trainers, nodes) for nodes in range(18)]
    assert worths == pytest.approx(
        [0, 10, 20, *(20 + 8 * n for n in range(1, 7)), *(68 + 4 * n for n in range(1, 9)), 100]
    )


def test_nobody_is_given_more_nodes_than_are_of_use_to_him() -> None:
    divider = Divider("throughput")
    slower = Trainer("a", ((1, 10.0), (2, 12.0), (3, 5.0)))
    assert [divider.best_worth_per_s([slower], nodes) for nodes in (1, 2, 3, 9)] == [10.0, 12.0, 12.0, 12.0]
