from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.replay.outcome import Outcome
from freetrain.replay.prices import Prices
from freetrain.replay.report import ReportInput
from freetrain.replay.worth import worth_of, worth_rows

PRICES = Prices(gpus_per_node=4, watts_per_node=2000, idle_watts_per_node=500, per_kwh=0.2, per_gpu_hour=1.5)


@pytest.fixture
def outcome(report: ReportInput) -> Outcome:
    return replace(report.study.outcome, lent_node_hours=120.0, useful_node_hours=100.0)


def test_trained_hours_count_and_lent_hours_cost(outcome: Outcome) -> None:
    worth = worth_of(outcome, PRICES)
    assert (worth.gpu_hours, worth.value) == (400.0, 600.0)
    assert (worth.energy_kwh, worth.energy_cost) == (180.0, 36.0)
    assert [row.shown for row in worth_rows(worth, PRICES)] == ["400", "EUR 600", "180 kWh", "EUR 36.0", "EUR 564"]


def test_what_the_site_does_not_say_is_left_out(outcome: Outcome) -> None:
    few = Prices(gpus_per_node=2)
    assert [row.name for row in worth_rows(worth_of(outcome, few), few)] == ["GPU-hours trained"]
    assert worth_rows(worth_of(outcome, Prices(per_kwh=1.0)), Prices(per_kwh=1.0)) == ()


def test_energy_of_idle_nodes_that_is_not_known_is_said(outcome: Outcome) -> None:
    unknown = Prices(watts_per_node=1000)
    (row,) = worth_rows(worth_of(outcome, unknown), unknown)
    assert (row.shown, row.reckoned) == ("120 kWh", "node-hours lent × 1,000 W, as if idle nodes took nothing")
