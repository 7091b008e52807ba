"""Links between leaves, on average over the time that trainers have nodes."""

from __future__ import annotations

import numpy as np
import pytest

from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.replay.leaf_links import LeafLinks
from freetrain.replay.trainer_run import TrainerRun

LEAVES = Topology({"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"})


def run_on(name: str, *nodes: str) -> TrainerRun:
    run = TrainerRun(Trainer(name, ((1, 10.0),)), np.zeros(9), 0.0)
    run.grow(nodes, 0.0)
    return run


def test_a_ring_has_as_many_links_between_leaves_as_it_has_leaves_and_none_on_one() -> None:
    links = LeafLinks(LEAVES)
    near, far, waiting = run_on("near", "a1", "a2"), run_on("far", "b1", "b2"), run_on("waiting")
    links.note([near, far, waiting])
    links.pass_time(30.0)
    assert links.mean == 0
    far.grow(["c1"], 30.0)
    links.note([near, far, waiting])
    links.pass_time(10.0)
    assert links.mean == pytest.approx(2 * 10 / (2 * 40))


def test_where_no_switches_are_known_nothing_is_said() -> None:
    links = LeafLinks(FLAT)
    links.note([run_on("near", "a1", "a2")])
    links.pass_time(30.0)
    assert links.mean is None
