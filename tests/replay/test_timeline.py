from __future__ import annotations

import numpy as np

from freetrain.core.holes import sorted_holes
from freetrain.replay.course import Timeline


def test_pictured_nodes_stand_in_the_order_in_which_people_count() -> None:
    names = ("0", "1", "10", "11", "2", "20", "9")
    everywhere = np.arange(len(names), dtype=np.int32)
    holes = sorted_holes(names, everywhere, np.zeros(len(names)), np.full(len(names), 60.0), 0.0, 60.0)
    timeline = Timeline(holes)
    assert timeline.pictured == ("0", "1", "2", "9", "10", "11", "20")
    assert timeline.ever_idle_nodes == 7
