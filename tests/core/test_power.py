"""What nodes take while they are lent."""

from __future__ import annotations

from freetrain.config import Prices
from freetrain.core.power import NO_DRAW, PowerDraw


def test_a_node_takes_what_its_kind_does_the_most_of_several_and_else_as_usual() -> None:
    draw = PowerDraw(300.0, {"a100": 2000.0, "gpu": 900.0})
    assert [draw.of(names) for names in (("a100", "gpu"), ("gpu",), ("v100",), ())] == [2000, 900, 300, 300]
    assert draw.is_known
    assert PowerDraw(of_kind_w={"a100": 1.0}).is_known
    assert not NO_DRAW.is_known


def test_what_counts_is_what_a_lent_node_takes_beyond_what_it_takes_idle() -> None:
    prices = Prices(
        watts_per_node=500,
        idle_watts_per_node=200,
        watts_of={"a100": 2400, "low": 100},
        idle_watts_of={"a100": 600},
    )
    assert prices.draw == PowerDraw(300.0, {"a100": 1800.0, "low": 0.0})
    assert prices.say_anything
    assert Prices(watts_of={"a100": 2400}).say_anything
    assert Prices(idle_watts_per_node=200).draw == NO_DRAW
