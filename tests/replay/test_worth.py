from __future__ import annotations

from freetrain.config import Prices
from freetrain.replay.worth import worth_of, worth_rows

PRICES = Prices(gpus_per_node=4, watts_per_node=2000, idle_watts_per_node=500, per_kwh=0.2, per_gpu_hour=1.5)
LENT, USEFUL = 120.0, 100.0


def test_trained_hours_count_and_lent_hours_cost() -> None:
    worth = worth_of(LENT, USEFUL, PRICES)
    assert (worth.gpu_hours, worth.value) == (400.0, 600.0)
    assert (worth.energy_kwh, worth.energy_cost) == (180.0, 36.0)
    assert [row.value for row in worth_rows(worth, PRICES)] == ["400", "EUR 600", "180 kWh", "EUR 36.0", "EUR 564"]


def test_nothing_lent_is_worth_nothing_and_not_unknown() -> None:
    assert worth_of(0.0, 0.0, PRICES).value == 0.0


def test_what_the_site_does_not_say_is_left_out() -> None:
    few = Prices(gpus_per_node=2)
    assert [row.name for row in worth_rows(worth_of(LENT, USEFUL, few), few)] == ["GPU-hours trained"]
    assert worth_rows(worth_of(LENT, USEFUL, Prices(per_kwh=1.0)), Prices(per_kwh=1.0)) == ()


def test_energy_of_several_kinds_of_nodes_is_that_of_those_that_were_lent() -> None:
    kinds = Prices(watts_of={"a100": 2400}, idle_watts_of={"a100": 400}, per_kwh=0.2)
    worth = worth_of(LENT, USEFUL, kinds, 1500.0)
    assert worth.energy_kwh == 180.0
    assert worth_rows(worth, kinds)[0].meaning == "node-hours lent × watts of their kinds, training less idle"
    assert worth_of(LENT, USEFUL, kinds).energy_kwh is None, "nobody knows which nodes they were"


def test_energy_of_idle_nodes_that_is_not_known_is_said() -> None:
    unknown = Prices(watts_per_node=1000)
    (row,) = worth_rows(worth_of(LENT, USEFUL, unknown), unknown)
    assert (row.value, row.meaning) == ("120 kWh", "node-hours lent × 1,000 W, as if idle nodes took nothing")
