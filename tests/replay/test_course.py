"""The timeline of a replay, and links between leaf switches."""

from __future__ import annotations

import numpy as np
import pytest

from freetrain.core.holes import sorted_holes
from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.replay.course import LeafLinks, Timeline
from freetrain.replay.trainer_run import TrainerRun


def test_pictured_nodes_stand_in_the_order_in_which_people_count() -> None:
    names = ("0", "1", "10", "11", "2", "20", "9")
    everywhere = np.arange(len(names), dtype=np.int32)
    holes = sorted_holes(names, everywhere, np.zeros(len(names)), np.full(len(names), 60.0), 0.0, 60.0)
    timeline = Timeline(holes)
    assert timeline.pictured == ("0", "1", "2", "9", "10", "11", "20")
    assert timeline.ever_idle_nodes == 7


LEAVES = Topology({"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"})


def run_on(name: str, *nodes: str, bytes_per_sample: float = 0.0) -> TrainerRun:
    trainer = Trainer(name, ((1, 10.0), (2, 20.0), (3, 27.0)), bytes_per_sample=bytes_per_sample)
    run = TrainerRun(trainer, np.zeros(9), 0.0)
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


def test_bytes_are_those_of_each_step_of_rings_on_several_leaves() -> None:
    """Three nodes train on 9 samples/s each, with 100 bytes of gradients for each; of the rings one has links."""
    links = LeafLinks(LEAVES)
    near, far = run_on("near", "a1", "a2", bytes_per_sample=100.0), run_on("far", "b1", "b2", "c1")
    known = run_on("known", "a1", "b1", "c1", bytes_per_sample=100.0)
    links.note([far])
    links.pass_time(5.0)
    assert links.bytes is None, "of whom nothing is known"
    links.note([near, far, known])
    links.pass_time(10.0)
    links.note([near])
    links.pass_time(10.0)
    assert links.bytes == pytest.approx(3 * 2 * (2 / 3) * 100 * 9 * 10)
