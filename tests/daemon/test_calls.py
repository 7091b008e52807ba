from __future__ import annotations

from freetrain.daemon.calls import Calls


def test_the_calls_of_the_last_hour_are_counted() -> None:
    calls = Calls()
    assert calls.lately(10, 0.0) == 0, "those before the first look are not known to be recent"
    assert calls.lately(40, 1800.0) == 30
    assert calls.lately(45, 3600.0) == 35
    assert calls.lately(50, 5400.0) == 10
    assert calls.lately(50, 20000.0) == 0
