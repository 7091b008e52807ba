"""Flows: as much as possible along the best arcs, in whole units."""

from __future__ import annotations

import numpy as np

from freetrain.policies.solver.flow import NOWHERE, Flow


def test_what_is_there_goes_where_it_gains_most() -> None:
    flow = Flow()
    flow.add(0, 1, 0.0, 3)
    flow.add(0, 2, 0.0, 9)
    flow.add(1, NOWHERE, 2.0, 9)
    flow.add(2, NOWHERE, 1.5, 1)
    flow.add(2, NOWHERE, -1.0, 9)
    units = flow.solve(np.array([7]), [0, 0])
    assert units is not None
    assert units.tolist() == [3, 1, 3, 1, 0]


def test_what_a_place_uses_must_come_there() -> None:
    flow = Flow()
    flow.add(0, 1, -1.0, 5)
    units = flow.solve(np.array([7]), [4])
    assert units is not None
    assert units.tolist() == [4]
    assert flow.solve(np.array([3]), [4]) is None
