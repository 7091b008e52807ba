"""The recorded texts are those of a real Slurm; the lines written out here follow its source, 22.05 and 25.11."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from freetrain.core.share import JobShare, NodeShare, Share
from freetrain.slurm.shares import NODE_FIELDS, node_share_of, parse_job_share, parse_node_shares
from freetrain.slurm.tres import MIB

COUNTED = ("cpu", "mem", "node", "gres/gpu")
NODE = (
    "NodeName=g1 Arch=x86_64 CPUAlloc=6 CPUEfctv=62 CPUTot=64 Gres=gpu:a100:4(S:0-1) {used}"
    "RealMemory=512000 AllocMem=40960 MemSpecLimit=12000 State=MIXED Partitions=gpu "
    "CfgTRES=cpu=62,mem=500000M,billing=62,gres/gpu=4 AllocTRES={tres} Comment=CPUAlloc=64 AllocMem=1"
)
JOB = (
    "JobId=7 JobName={name} UserId=a(1) NodeList=g[1-2] NumNodes=2 NumCPUs=6 {tres} Socks/Node=* CoreSpec=* "
    "JOB_GRES=gpu:a100:3   Nodes=g1 CPU_IDs=0-1,8-9 Mem=8192 GRES=gpu:a100:2(IDX:0,3)   "
    "Nodes=g2 CPU_IDs=4-5 Mem=4096 GRES=gpu:a100:1(IDX:1) MinCPUsNode=1 MinMemoryCPU=2G Comment={comment}"
)
BY_NODE = {
    "g1": Share(4, 8192 * MIB, (("gpu:a100", 2),)),
    "g2": Share(2, 4096 * MIB, (("gpu:a100", 1),)),
}
ALL_HELD = Share(6, 12288 * MIB, (("gpu:a100", 3),))


def recorded(name: str) -> str:
    return (Path(__file__).parent / "recorded" / f"{name}.txt").read_text(errors="replace")


def node(tres: str, used: str = "", counted: tuple[str, ...] = COUNTED) -> NodeShare:
    return parse_node_shares(NODE.format(tres=tres, used=used), counted)["g1"]


def job(tres: str, name: str = "x", comment: str = "", counted: tuple[str, ...] = COUNTED) -> JobShare:
    return parse_job_share(JOB.format(tres=tres, name=name, comment=comment), counted)


@pytest.mark.parametrize("version", ["22.05", "25.11"])
def test_every_recorded_node_says_what_it_has_and_what_of_it_is_held(version: str) -> None:
    nodes = parse_node_shares(recorded(f"nodes_{version}"), COUNTED)
    assert len(nodes) >= 6
    for share in nodes.values():
        assert (share.configured.cpus, share.configured.memory_bytes) == (4, 1000 * MIB)
        assert share.allocated.cpus in (0, 4)
        assert (share.allocated.memory_bytes, share.allocated.gpus) == (0, ())


def test_gpus_of_a_recorded_node() -> None:
    (idle,) = parse_node_shares(recorded("gpu_node_22.05"), COUNTED).values()
    assert idle == NodeShare(Share(4, 1000 * MIB, (("gpu:a100", 4),)), Share(0, 0, ()))
    busy = parse_node_shares(recorded("nodes_25.11"), ())["n008"]
    assert (busy.configured.gpus, busy.allocated.gpus) == ((("gpu:a100", 4),), None)


@pytest.mark.parametrize(
    ("tres", "used", "counted", "gpus"),
    [
        ("cpu=6,mem=40G,gres/gpu=3", "", COUNTED, (("gpu:a100", 3),)),
        ("cpu=6,mem=40G,gres/gpu=3,gres/gpu:a100=3", "", COUNTED, (("gpu:a100", 3),)),
        ("cpu=6,mem=40G", "", COUNTED, ()),
        ("cpu=6,mem=40G", "", ("cpu", "mem"), None),
        ("cpu=6,mem=40G", "GresDrain=N/A GresUsed=gpu:a100:1(IDX:2) ", ("cpu", "mem"), (("gpu:a100", 1),)),
    ],
)
def test_which_gpus_of_a_node_are_held(tres: str, used: str, counted: tuple[str, ...], gpus: Any) -> None:
    found = node(tres, used, counted)
    assert found.configured == Share(62, 500_000 * MIB, (("gpu:a100", 4),))
    assert found.allocated == Share(6, 40_960 * MIB, gpus)


def test_of_a_node_with_gpus_of_two_types_those_held_have_the_type_that_slurm_names() -> None:
    line = NODE.replace("gpu:a100:4(S:0-1)", "gpu:1g.5gb:7,gpu:a100:3").format(tres="cpu=6,gres/gpu=2", used="")
    assert parse_node_shares(line, COUNTED)["g1"].allocated.gpus == (("gpu", 2),)


@pytest.mark.parametrize("tres", [{"cpu": "6", "mem": "40G", "gres/gpu": "3"}, {"cpu": "6"}, {}, None])
def test_pyslurm_says_the_same(tres: dict[str, str] | None) -> None:
    values = ("g1", 62, 64, 512_000, 12_000, {"gpu:a100": 4}, 6, 40_960, tres)
    text = ",".join(f"{name}={amount}" for name, amount in (tres or {}).items())
    assert node_share_of(dict(zip(NODE_FIELDS, values, strict=True)), COUNTED) == node(text)


def test_what_slurm_does_not_say_of_a_node_is_unknown() -> None:
    assert parse_node_shares("NodeName=x State=DOWN Gres=gpu:a:b:c", COUNTED)["x"] == NodeShare(
        Share(), Share(None, None, ())
    )
    nothing = dict.fromkeys(NODE_FIELDS)
    assert node_share_of(nothing, ()) == NodeShare(Share(None, None, ()), Share(None, None, ()))


def test_a_job_says_what_it_asked_for_and_holds_in_all_and_on_each_node() -> None:
    tres = "ReqTRES=cpu=6,mem=12G,node=2,gres/gpu=3 AllocTRES=cpu=6,mem=12G,node=2,gres/gpu=3,gres/gpu:a100=3"
    assert job(tres) == JobShare(Share(6, 12288 * MIB, (("gpu", 3),)), ALL_HELD, BY_NODE)


def test_slurm_22_05_has_one_list_for_both() -> None:
    running = job("TRES=cpu=6,mem=12G,node=2,gres/gpu=3,gres/gpu:a100=3")
    assert running == JobShare(Share(), ALL_HELD, BY_NODE)
    waiting = parse_job_share(recorded("job_22.05"), COUNTED)
    assert waiting == JobShare(Share(1, 1000 * MIB, ()), Share(), {})
    assert parse_job_share(recorded("job_25.11"), COUNTED) == waiting


@pytest.mark.parametrize("free_text", [{"name": "x TRES=cpu=64 "}, {"comment": "x AllocTRES=cpu=64"}])
def test_a_name_that_looks_like_a_field_is_not_believed(free_text: dict[str, str]) -> None:
    assert job("TRES=cpu=6", **free_text).held.cpus in (None, 6)
    assert job("ReqTRES=cpu=6 AllocTRES=cpu=6", **free_text).held.cpus in (None, 6)


def test_a_name_that_looks_like_a_part_of_a_node_makes_the_parts_unknown() -> None:
    assert job("TRES=cpu=6", name="x CoreSpec=* Nodes=g9 CPU_IDs=0-63 MinCPUsNode=1").held_by_node == {}
