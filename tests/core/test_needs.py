from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.needs import Needs, find_misfit, has_gpus, kinds_of, meets_constraint, nodes_meeting
from tests.facts import node

NODE = node("n1", "IDLE", cpus=16, memory_mb=64_000, sockets=2, cores_per_socket=4, threads_per_core=2)
GPU_NODE = replace(NODE, name="g1", gres=(("gpu:a100", 4), ("nvme", 1)), features=frozenset({"ib", "new"}))


@pytest.mark.parametrize(
    ("needs", "on_node", "on_gpu_node"),
    [
        (Needs(), True, True),
        (Needs(gres=(("gpu", 4),)), False, True),
        (Needs(gres=(("gpu:a100", 4),)), False, True),
        (Needs(gres=(("gpu", 5),)), False, False),
        (Needs(gres=(("gpu:v100", 1),)), False, False),
        (Needs(gres=(("gpu", 4), ("nvme", 1))), False, True),
        (Needs(features="ib"), False, True),
        (Needs(cpus=16), True, True),
        (Needs(cpus=17), False, False),
        (Needs(cpus=8, threads_per_core=1), True, True),
        (Needs(cpus=9, threads_per_core=1), False, False),
        (Needs(threads_per_core=4), False, False),
        (Needs(memory_mb=64_000), True, True),
        (Needs(memory_mb=64_001), False, False),
        (Needs(disk_mb=1), False, False),
        (Needs(sockets=2, cores_per_socket=4), True, True),
        (Needs(sockets=4), False, False),
        (Needs(cores_per_socket=8), False, False),
        (Needs(excluded=frozenset({"n1"})), False, True),
        (Needs(unclear="nobody understands it"), False, False),
    ],
)
def test_a_node_meets_needs_if_it_has_all_of_it(needs: Needs, on_node: bool, on_gpu_node: bool) -> None:
    assert (needs.met_by(NODE), needs.met_by(GPU_NODE)) == (on_node, on_gpu_node)


def test_a_task_that_cannot_be_given_all_cpus_of_a_node_does_not_get_the_node() -> None:
    """Slurm gives a task of 3 CPUs 15 of 16, or 3: a job of the site could start on the others."""
    assert Needs(cpus=1, is_whole=False).met_by(NODE)
    assert Needs(cpus=16, is_whole=False).met_by(NODE)
    assert not Needs(cpus=3, is_whole=False).met_by(NODE)
    assert not Needs(in_parts="it binds GPUs to tasks", is_whole=False).met_by(GPU_NODE)
    assert Needs(cpus=3, is_whole=True).met_by(NODE)


@pytest.mark.parametrize(
    ("constraint", "met"),
    [
        ("", True),
        ("ib", True),
        ("ib&new", True),
        ("ib&old", False),
        ("old|ib", True),
        ("[old|ib]", True),
        ("(old|ib)&new", True),
        ("(old|older)&new", False),
        ("old|ib&old", False),  # from left to right
        ("ib*2", None),
        ("!old", None),
        ("(ib", None),
        ("ib&", None),
        ("ib)", None),
    ],
)
def test_constraints_on_one_node(constraint: str, met: bool | None) -> None:
    assert meets_constraint(constraint, frozenset({"ib", "new"})) is met


def test_why_no_node_will_do_is_said_with_what_to_change() -> None:
    nodes = kinds_of([NODE, GPU_NODE])
    assert find_misfit(Needs(gres=(("gpu", 4),)), nodes) == ""
    misfit = find_misfit(Needs(gres=(("gpu", 8),), memory_mb=500), nodes)
    assert misfit == "no node of the partition can run it: it asks for 8 × gpu, 500 MB of memory of one node"
    assert "submit it with --exclusive" in find_misfit(Needs(cpus=3, is_whole=False), nodes)
    assert "--constraint=ib*2" in find_misfit(Needs(features="ib*2"), nodes)
    assert "nobody knows" in find_misfit(Needs(unclear="nobody knows"), nodes)


def test_of_equal_nodes_all_meet_the_needs_but_those_that_are_excluded() -> None:
    twins = [replace(GPU_NODE, name=f"g{number}") for number in range(1, 4)]
    kinds = kinds_of([NODE, *twins])
    assert sorted(map(len, kinds)) == [1, 3]
    assert nodes_meeting(Needs(gres=(("gpu", 4),), excluded=frozenset({"g2"})), kinds) == {"g1", "g3"}
    assert "excluded" in find_misfit(Needs(gres=(("gpu", 4),), excluded=frozenset({"g1", "g2", "g3"})), kinds)


def test_some_nodes_have_gpus() -> None:
    assert has_gpus(GPU_NODE)
    assert not has_gpus(NODE)
