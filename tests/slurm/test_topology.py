"""What ``scontrol -o show topology`` printed, of Slurm 22.05 and 25.11: twelve nodes on three leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.core.topology import FLAT
from freetrain.slurm.parsing import parse_topology

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / f"topology_{name}.txt").read_text()


@pytest.mark.parametrize("version", ["22.05", "25.11"])
def test_a_tree_is_read_from_its_leaves_to_its_root(version: str) -> None:
    topology, rejected = parse_topology(recorded(f"tree_{version}"))
    assert rejected == []
    assert len(topology.leaves) == 12
    assert topology.leaf_of("n06") == "leaf2"
    assert topology.way_up("leaf2") == ("leaf2", "spine1", "core")
    assert topology.way_up("leaf3") == ("leaf3", "core")


def test_a_block_is_a_leaf_and_blocks_taken_together_are_the_switch_above() -> None:
    topology, rejected = parse_topology(recorded("block_25.11"))
    assert rejected == []
    assert topology.leaf_of("n06") == "b2"
    assert topology.way_up("b2") == ("b2", "b[1-2]")
    assert topology.way_up("b3") == ("b3",)


def test_two_spines_above_the_same_leaves_are_not_above_each_other() -> None:
    spines = "SwitchName=s1 Level=1 Nodes=n[1-4]\nSwitchName=s2 Level=1 Nodes=n[1-4]\n"
    topology, _ = parse_topology(f"SwitchName=leaf Level=0 Nodes=n[1-4]\n{spines}")
    assert topology.way_up("leaf") == ("leaf", "s1")
    assert topology.way_up("s1") == ("s1",)


def test_what_is_no_switch_is_named_and_the_others_count() -> None:
    topology, rejected = parse_topology("SwitchName=odd Level=high Nodes=n1\nSwitchName=l Level=0 Nodes=n[1-2]\n")
    assert topology.leaf_of("n1") == "l"
    assert len(rejected) == 1
    assert "SwitchName=odd" in rejected[0]


def test_without_a_topology_all_is_flat() -> None:
    assert parse_topology("scontrol: No topology information available\n") == (FLAT, [])
