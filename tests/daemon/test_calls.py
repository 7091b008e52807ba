from __future__ import annotations

from freetrain.daemon.lender import Calls


def test_the_calls_of_the_last_hour_are_counted() -> None:
    calls = Calls(0.0)
    assert calls.lately(10, 5.0) == 10, "with those of the daemon's start"
    assert calls.lately(40, 1800.0) == 40
    assert calls.lately(45, 3605.0) == 35
    assert calls.lately(50, 5400.0) == 10
    assert calls.lately(50, 20000.0) == 0
