"""Nodes of which Slurm says nothing certain: what is lent there goes on, and counts in every limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.node import NodeState
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import NODES, FakeSlurm

ALICE = "alice"


def lend(slurm: FakeSlurm, start_daemon: StartDaemon, tag: str, **settings: object) -> tuple[str, Daemon]:
    array = slurm.submit_array(f"freetrain:{tag}", tasks=8, user=ALICE)
    daemon = start_daemon(**settings)
    daemon.cycle()
    daemon.cycle()
    return array, daemon


def forget_state(slurm: FakeSlurm, *names: str) -> None:
    for name in names:
        slurm.nodes[name] = replace(slurm.nodes[name], state=NodeState.UNKNOWN)


def look_again(daemon: Daemon) -> None:
    for _ in range(3):
        daemon.cycle()


@pytest.mark.parametrize("unknown", [1, 2, 3])
def test_a_training_gets_no_node_beyond_its_most(
    slurm: FakeSlurm, start_daemon: StartDaemon, unknown: int
) -> None:
    array, daemon = lend(slurm, start_daemon, "min=1,max=3")
    before = slurm.running(array)
    forget_state(slurm, *sorted(before)[:unknown])
    look_again(daemon)
    assert slurm.running(array) == before


def test_a_training_keeps_its_other_nodes_though_they_are_less_than_it_needs(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    everything = len(NODES)
    array, daemon = lend(slurm, start_daemon, f"min={everything},max={everything}")
    before = slurm.running(array)
    assert len(before) == everything
    forget_state(slurm, sorted(before)[0])
    look_again(daemon)
    assert slurm.running(array) == before


@pytest.mark.parametrize("limit", ["most_nodes", "most_nodes_per_user"])
def test_the_sites_limits_hold(slurm: FakeSlurm, start_daemon: StartDaemon, limit: str) -> None:
    array, daemon = lend(slurm, start_daemon, "min=1,max=3", **{limit: 5})
    forget_state(slurm, *sorted(slurm.running(array))[:2])
    other = slurm.submit_array("freetrain:min=1", tasks=8, user=ALICE)
    look_again(daemon)
    assert len(slurm.running(array)) + len(slurm.running(other)) == 5


def test_what_is_known_again_is_judged_as_before(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array, daemon = lend(slurm, start_daemon, "min=1,max=3")
    before, node = slurm.running(array), sorted(slurm.running(array))[0]
    forget_state(slurm, node)
    look_again(daemon)
    slurm.nodes[node] = replace(slurm.nodes[node], state=NodeState.BUSY)
    look_again(daemon)
    assert slurm.running(array) == before
