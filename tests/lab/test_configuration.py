from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.errors import FreetrainError, InputError
from freetrain.lab import LabOptions, programs
from freetrain.lab.layout import (
    MAX_SOCKET_BYTES,
    LabLayout,
    cgroup_conf,
    gres_conf,
    slurm_conf,
    slurmdbd_conf,
    topology_conf,
)
from freetrain.lab.options import People

LAYOUT = LabLayout(Path("/tmp/ft-1"))
PEOPLE = People("slurm", "root", {"alice": "news", "bob": "games", "daemon": "backup"})


def lines(**options: object) -> list[str]:
    return slurm_conf(LAYOUT, LabOptions(**options), PEOPLE, "box").splitlines()  # type: ignore[arg-type]


def test_a_node_has_its_own_port_and_all_share_the_host() -> None:
    addresses = "NodeName=n[001-003] Port=[21010-21012] NodeAddr=127.0.0.1 NodeHostname=box"
    assert f"{addresses} CPUs=8 RealMemory=1000 State=UNKNOWN" in lines(nodes=3, base_port=21_000, cpus=8)


def test_imaginary_nodes_are_idle_from_the_start() -> None:
    found = lines(nodes=3, fake=8000, base_port=21_000)
    assert any(line.startswith("NodeName=f[00001-08000] Port=21010 ") and line.endswith("IDLE") for line in found)
    assert "TreeWidth=65533" in found
    assert not any(line.startswith(("NodeName=f", "TreeWidth")) for line in lines())


def test_nodes_that_follow_each_other_share_a_leaf_and_one_switch_is_above_all() -> None:
    options = LabOptions(nodes=3, fake=1, nodes_per_leaf=3)
    assert topology_conf(options).splitlines() == [
        "SwitchName=leaf1 Nodes=n001,n002,n003",
        "SwitchName=leaf2 Nodes=f00001",
        "SwitchName=top Switches=leaf[1-2]",
    ]
    assert "TopologyPlugin=topology/tree" in lines(nodes=3, nodes_per_leaf=2)
    assert not any("Topology" in line for line in lines(nodes=3))


def test_partitions_preempt_as_asked() -> None:
    main, freetrain = (line for line in lines(grace_s=20) if line.startswith("PartitionName="))
    assert {"Default=YES", "PriorityTier=10", "PreemptMode=OFF", "OverSubscribe=EXCLUSIVE"} <= set(main.split())
    assert {"PriorityTier=1", "PreemptMode=REQUEUE", "GraceTime=20", "MaxTime=1-0"} <= set(freetrain.split())


@pytest.mark.parametrize(
    ("mode", "of_the_cluster"),
    [("REQUEUE", "REQUEUE"), ("CANCEL", "CANCEL"), ("SUSPEND", "SUSPEND,GANG"), ("OFF", "OFF")],
)
def test_the_clusters_preemption_allows_that_of_the_partition(mode: str, of_the_cluster: str) -> None:
    assert f"PreemptMode={of_the_cluster}" in lines(preempt_mode=mode)


def test_a_setting_takes_the_place_of_the_labs_own() -> None:
    found = [line for line in lines(settings={"killwait": "5", "SlurmdTimeout": "10"}) if "=" in line]
    assert [line for line in found if line.lower().startswith("killwait")] == ["killwait=5"]
    assert "SlurmdTimeout=10" in found
    keys = [line.partition("=")[0].lower() for line in found if not line.startswith(("NodeName", "PartitionName"))]
    assert len(keys) == len(set(keys))


def test_accounting_only_if_wanted() -> None:
    assert "AccountingStorageType=accounting_storage/none" in lines()
    found = lines(accounting=True, base_port=21_000)
    assert {"AccountingStoragePort=21001", "AccountingStorageEnforce=associations,limits,qos"} <= set(found)
    assert "DbdPort=21001" in slurmdbd_conf(LAYOUT, LabOptions(base_port=21_000), PEOPLE)


def test_gpus_are_files() -> None:
    assert gres_conf(LAYOUT, LabOptions()) == ""
    assert gres_conf(LAYOUT, LabOptions(gpus=2)).count("Name=gpu File=/tmp/ft-1/nodes/gpu") == 2
    assert "GresTypes=gpu" in lines(gpus=2)


@pytest.mark.parametrize(
    ("version", "plugin"), [((22, 5), "cgroup/v1"), ((24, 5), "disabled"), ((25, 11), "disabled")]
)
def test_no_control_groups_are_made(version: tuple[int, int], plugin: str) -> None:
    assert cgroup_conf(LabOptions(), version) == f"CgroupPlugin={plugin}\n"


def test_who_wants_control_groups_gets_slurms_own_choice() -> None:
    assert cgroup_conf(LabOptions(settings={"ProctrackType": "proctrack/cgroup"}), (25, 11)) == ""


def test_only_the_last_nodes_may_have_gpus_and_of_a_type() -> None:
    found = lines(nodes=5, gpus=4, gpu_nodes=2, gpu_type="a100", base_port=21_000)
    nodes = [line for line in found if line.startswith("NodeName=")]
    assert [line.split()[0] for line in nodes] == ["NodeName=n[001-003]", "NodeName=n[004-005]"]
    assert ["Gres=gpu:a100:4" in line for line in nodes] == [False, True]
    assert "Port=[21013-21014]" in nodes[1]
    text = gres_conf(LAYOUT, LabOptions(nodes=5, gpus=1, gpu_nodes=2, gpu_type="a100"))
    assert text == "NodeName=n[004-005] Name=gpu Type=a100 File=/tmp/ft-1/nodes/gpu0\n"
    with pytest.raises(InputError, match="Between 0 and 5 nodes"):
        LabOptions(nodes=5, gpu_nodes=6)


def test_there_may_be_several_types_of_gpus() -> None:
    options = {"nodes": 5, "gpus": 8, "gpu_type": "a100,h100"}
    nodes = [line for line in lines(**options, base_port=21_000) if line.startswith("NodeName=")]
    found = [[line.split()[0], next(word for word in line.split() if word.startswith("Gres="))] for line in nodes]
    assert found == [["NodeName=n[001-002]", "Gres=gpu:a100:8"], ["NodeName=n[003-005]", "Gres=gpu:h100:8"]]
    assert ["Port=[21010-21011]" in nodes[0], "Port=[21012-21014]" in nodes[1]] == [True, True]
    text = gres_conf(LAYOUT, LabOptions(**{**options, "gpus": 1}))
    assert text == (
        "NodeName=n[001-002] Name=gpu Type=a100 File=/tmp/ft-1/nodes/gpu0\n"
        "NodeName=n[003-005] Name=gpu Type=h100 File=/tmp/ft-1/nodes/gpu0\n"
    )
    with pytest.raises(InputError, match="no node for each"):
        LabOptions(nodes=2, gpus=8, gpu_type="a100,h100,v100")
    with pytest.raises(InputError, match="no node for each of a100: 0 nodes have GPUs"):
        LabOptions(nodes=2, gpu_type="a100")


def test_the_site_may_have_further_partitions_that_overlap() -> None:
    found = lines(partitions={"debug": "Nodes=n[001-002] PriorityTier=20", "all": ""})
    assert [line for line in found if line.startswith(("PartitionName=debug", "PartitionName=all"))] == [
        "PartitionName=debug Nodes=n[001-002] PriorityTier=20 MaxTime=7-0 PreemptMode=OFF DefaultTime=1:00:00 "
        "OverSubscribe=EXCLUSIVE State=UP",
        "PartitionName=all Nodes=ALL MaxTime=7-0 PriorityTier=10 PreemptMode=OFF DefaultTime=1:00:00 "
        "OverSubscribe=EXCLUSIVE State=UP",
    ]
    for wrong in ({"main": ""}, {"a b": ""}, {"debug": "Nodes=ALL\nPartitionName=x"}):
        with pytest.raises(InputError):
            LabOptions(partitions=wrong)


def test_partitions_may_share_their_nodes() -> None:
    shared = [line for line in lines(exclusive=False) if line.startswith("PartitionName=")]
    assert not any("OverSubscribe" in line for line in shared)


def test_a_long_path_is_refused_before_a_daemon_does() -> None:
    node = "/nodes/n001/n001_4294967295.4294967295"
    longest = "/" + "x" * (MAX_SOCKET_BYTES - len(node) - 1)
    LabLayout(Path(longest)).require_usable("n001")
    with pytest.raises(InputError, match="3 bytes too long"):
        LabLayout(Path(longest + "xyz")).require_usable("n001")


@pytest.mark.parametrize("name", ["with space", "per%cent", "brack[et]", "#"])
def test_names_that_slurm_would_misread_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="mean something to Slurm"):
        LabLayout(Path("/tmp") / name).require_usable("n001")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for present in ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "scancel"):
        (tmp_path / present).touch(mode=0o755)
    monkeypatch.setattr(programs, "SEARCH_PATH", str(tmp_path))
    programs.require_programs(accounting=False)
    with pytest.raises(FreetrainError, match="slurmdbd, sacctmgr, mariadbd, mariadb-install-db") as caught:
        programs.require_programs(accounting=True)
    assert "apt install slurm-wlm slurmdbd munge mariadb-server" in caught.value.hint


@pytest.mark.parametrize(("told", "version"), [("slurm-wlm 22.05.8", (22, 5)), ("slurm 25.11.7", (25, 11))])
def test_slurm_says_which_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str, version: tuple[int, int]
) -> None:
    slurmctld = tmp_path / "slurmctld"
    slurmctld.write_text(f"#!/bin/sh\necho {told}\n")
    slurmctld.chmod(0o755)
    monkeypatch.setattr(programs, "SEARCH_PATH", str(tmp_path))
    assert programs.slurm_version() == version
