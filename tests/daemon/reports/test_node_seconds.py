from __future__ import annotations

import pytest

from freetrain.daemon.reports.metrics import NodeSeconds, Use, UseMeter


def use(time_s: float, lent: dict[str, int] | None = None, samples: dict[str, float] | None = None) -> Use:
    return Use(time_s, idle=8, offered=6, lent=lent or {}, samples=samples or {})


def test_between_two_looks_all_was_as_at_the_first() -> None:
    meter, first = UseMeter().after(use(100.0, {"1": 2, "2": 3}))
    assert first == NodeSeconds()
    _, spent = meter.after(Use(110.0, 0, 0, {}, {}))
    assert (spent.idle, spent.offered, spent.lent) == (80.0, 60.0, 50.0)


def test_useful_is_what_a_trainer_had_when_it_got_on() -> None:
    meter, _ = UseMeter().after(use(0.0, {"1": 2, "2": 3}, {"1": 10.0}))
    meter, spent = meter.after(use(10.0, {"1": 2, "2": 3}, {"1": 20.0}))
    assert (spent.lent, spent.useful) == (50.0, 20.0)
    meter, spent = meter.after(use(20.0, {"1": 2, "2": 3}, {"1": 20.0}))
    assert spent.useful == 0.0
    _, spent = meter.after(use(25.0, {"1": 2, "2": 3}, {"1": 30.0}))
    assert spent.useful == 30.0, "its progress came a look later"


def test_a_boot_is_not_useful() -> None:
    meter, _ = UseMeter().after(use(0.0, {"1": 1}))
    for second in range(10, 300, 10):
        meter, spent = meter.after(use(float(second), {"1": 1}))
        assert spent.useful == 0.0
    _, spent = meter.after(use(300.0, {"1": 1}, {"1": 5.0}))
    assert spent.useful == pytest.approx(30.0)


def test_a_clock_that_goes_back_counts_nothing() -> None:
    meter, _ = UseMeter().after(use(100.0, {"1": 1}))
    _, spent = meter.after(use(50.0))
    assert spent == NodeSeconds()
