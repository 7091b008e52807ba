from __future__ import annotations

import numpy as np
import pytest

from freetrain.core.holes import cut, find_holes
from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.course import ReplaySetup
from freetrain.replay.driver import Replay
from freetrain.replay.foresight import Foresight
from freetrain.replay.logs.busy import find_empty_hours
from freetrain.replay.outcome import without_empty_hours

HOUR_S = 3600.0


def test_what_was_idle_lent_and_trained_outside_empty_hours() -> None:
    # Two nodes over four hours; both are idle in the second hour, one in the others.
    node, start_s, end_s = np.array([1, 1], np.int32), np.array([0.0, 2.0]) * HOUR_S, np.array([1.0, 4.0]) * HOUR_S
    holes = find_holes(("a", "b"), node, start_s, end_s, 0.0, 4 * HOUR_S)
    trainer = Trainer("t", ((1, 10.0), (2, 20.0)), scale_up_s=0.0, scale_down_s=0.0)
    goal = Goal.of(find_policy("freetrain"), "throughput")
    record = Replay(holes, ReplaySetup([trainer], goal, lambda: 0.0), Foresight(120.0), 1).run()
    empty = find_empty_hours(holes, holes)
    assert empty is not None
    rest = without_empty_hours(record, empty)
    assert rest is not None
    assert (rest.idle_node_hours, rest.lent_node_hours) == (3.0, 3.0)
    assert rest.samples == pytest.approx(3 * HOUR_S * 10)
    around = ((0.0, HOUR_S), (2 * HOUR_S, 4 * HOUR_S))
    assert rest.idle_node_hours == sum(cut(holes, *hours).idle_node_hours for hours in around)
