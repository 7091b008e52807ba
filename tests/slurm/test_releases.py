"""Slurm from 23.02 to 26.05, after its source: every release's form is read alike, and new words are said.

``recorded`` holds what real Slurms of 22.05 and 25.11 printed. What lies in ``written`` was never printed by any:
its fields, their order and their words are those of src/api/node_info.c, partition_info.c, reservation_info.c and
config_info.c of each release. What squeue, sacct, sdiag and ``scontrol ping`` print of what freetrain asks for is
made by the same lines of code from 22.05 to 26.05, but for the words of states and reasons, and for who has whole
nodes (``test_whole_nodes.py``).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import JobState, WaitsFor
from freetrain.core.node import Node, NodeState, Partition, Reservation
from freetrain.lending.facts import Facts
from freetrain.lending.memory import Memory
from freetrain.lending.node_verdicts import NodeContext, judge_nodes
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow
from freetrain.slurm.parsing import parse_jobs, parse_nodes, parse_partitions, parse_reservations
from freetrain.slurm.settings import parse_controller_s, parse_settings
from freetrain.slurm.site.facts import Site
from freetrain.slurm.states import facts_of_state, job_state, waits_for
from tests.slurm.test_command_line import record

RELEASES = ("23.02", "23.11", "24.05", "24.11", "25.05", "26.05")
every_release = pytest.mark.parametrize("release", RELEASES)

IN_BOTH = ("main", "freetrain")
GPU_NODE = Node(
    "g01", **facts_of_state("IDLE"), partitions=IN_BOTH, features=frozenset({"a100", "ib"}), cpus=16,
    memory_mb=10_000, disk_mb=2000, gres=(("gpu:a100", 4),), sockets=2, cores_per_socket=8, threads_per_core=1,
    used=Amount(0, 0),
)  # fmt: skip
CPU_NODE = replace(
    GPU_NODE, name="c03", **facts_of_state("ALLOCATED"), features=frozenset(), gres=(), cores_per_socket=4,
    threads_per_core=2, used=Amount(16, 10_000),
)  # fmt: skip
NODES = [
    GPU_NODE,
    replace(GPU_NODE, name="g02", **facts_of_state("MIXED"), used=Amount(8, 6000, (("gpu:a100", 3),))),
    replace(CPU_NODE, name="c01", used=Amount(0, 0), **facts_of_state("IDLE+DRAIN", "Kill task failed")),
    replace(CPU_NODE, name="c02", used=Amount(0, 0), **facts_of_state("IDLE+CLOUD+POWERED_DOWN")),
    CPU_NODE,
    replace(CPU_NODE, name="c04", used=Amount(0, 0), **facts_of_state("DOWN+NOT_RESPONDING")),
]
EVERYWHERE = frozenset({"c01", "c02", "c03", "c04", "g01", "g02"})


def written(name: str, release: str) -> str:
    return (Path(__file__).parent / "written" / f"{name}_{release}.txt").read_text()


@every_release
def test_nodes(release: str) -> None:
    nodes, rejected = parse_nodes(written("nodes", release), in_parts=True)
    assert rejected == []
    assert nodes == NODES
    lost = next(node for node in nodes if node.name == "c01")
    assert lost.was_not_cleared


@every_release
def test_partitions(release: str) -> None:
    rows, rejected = parse_partitions(written("partition", release))
    assert rejected == []
    partitions = Site({}, rows).partitions
    main, ours = partitions["main"], partitions["freetrain"]
    assert main.partition == Partition("main", EVERYWHERE, True, 10, "OFF", 0.0, 7 * 86400.0, 1000)
    assert ours.partition == Partition("freetrain", EVERYWHERE, False, 1, "REQUEUE", 0.0, inf, 1000)
    assert (main.is_default, main.qos, main.job_qos.allow) == (True, "", None)
    assert (ours.is_default, ours.qos, ours.job_qos.allow) == (False, "freetrain", {"normal", "freetrain"})
    assert (ours.billing, ours.over_s) == ({"cpu": 0.0}, None)
    limits = [ours.row[key] for key in ("MaxCPUsPerNode", "MaxNodes", "MinNodes", "RootOnly", "ReqResv")]
    assert limits == ["UNLIMITED", "UNLIMITED", "0", "NO", "NO"]


@every_release
def test_reservations(release: str) -> None:
    (maint, daily), rejected = parse_reservations(written("reservation", release))
    assert rejected == []
    assert replace(maint, flags=frozenset()) == Reservation(
        "maint", frozenset({"c01"}), 1_795_240_000.0, 1_795_243_600.0, frozenset()
    )
    assert {"MAINT", "SPEC_NODES"} <= maint.flags
    assert (daily.nodes, daily.start_s, daily.end_s) == ({"g01", "g02"}, 1_795_250_000.0, 1_795_253_600.0)
    assert daily.flags == {"FLEX", "DAILY", "SPEC_NODES", "PURGE_COMP=00:05:00"}


@every_release
def test_settings(release: str) -> None:
    text = written("config", release)
    found = parse_settings(text)
    assert parse_controller_s(text) == 1_795_000_000.0
    assert found.version.startswith(release)
    assert replace(found, version="") == replace(parse_settings(written("config", "23.02")), version="")
    assert (found.cluster, found.slurm_user, found.epilog) == ("hill", "slurm", "/etc/slurm/epilog.sh")
    assert (found.preempt_type, found.preempt_mode, found.exempt_s) == ("preempt/partition_prio", "REQUEUE", 10.0)
    assert found.preempt_parameters == "strict_order,youngest_first"
    assert (found.backfill_interval_s, found.backfill_resolution_s, found.backfill_window_s) == (15, 30, 172_800)
    assert (found.suspend_s, found.suspend_not, found.over_s) == (600.0, ("g[01-02]", ""), 0.0)
    assert (found.has_accounting, found.charges, found.hides_jobs) == (True, True, True)
    assert found.enforces == {"associations", "limits", "qos", "safe"}
    assert (found.job_comp_type, found.job_submit_plugins) == ("jobcomp/lua", ("lua",))
    assert found.controller_parameters == "enable_configless,rl_enable,rl_bucket_size=60"


JOB_STATES = (
    "BOOT_FAIL CANCELLED COMPLETED COMPLETING CONFIGURING DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PENDING "
    "PREEMPTED REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD REVOKED RUNNING SIGNALING SPECIAL_EXIT "
    "STAGE_OUT STOPPED SUSPENDED TIMEOUT"
)
"""All words of job_state_string from 22.05 to 25.05; 25.11 adds EXPEDITING, 26.05 none."""


@pytest.mark.parametrize("word", JOB_STATES.split())
def test_no_state_of_a_job_up_to_25_05_is_new(word: str) -> None:
    (job,), rejected = parse_jobs(record(T=word), "MARK", "freetrain:")
    assert rejected == []
    assert job.state is job_state(word)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("SIGNALING", JobState.RUNNING),
        ("STOPPED", JobState.RUNNING),
        ("RESIZING", JobState.RUNNING),
        ("STAGE_OUT", JobState.COMPLETING),
        ("SPECIAL_EXIT", JobState.PENDING),
        ("RESV_DEL_HOLD", JobState.PENDING),
        ("REVOKED", JobState.UNKNOWN),
    ],
)
def test_a_job_that_runs_or_waits_under_another_word_runs_or_waits(word: str, state: JobState) -> None:
    assert job_state(word) is state


@pytest.mark.parametrize("word", ["EXPEDITING", "TELEPORTING"])
def test_a_new_state_of_a_job_is_said_and_nothing_is_concluded_from_it(word: str) -> None:
    (job,), rejected = parse_jobs(record(T=word, i="12"), "MARK", "freetrain:")
    assert (job.id, job.state) == ("12", JobState.UNKNOWN)
    assert (job.state.has_nodes, job.state.is_waiting, job.state.is_final) == (False, False, False)
    assert rejected == [f"job '12': state '{word}' is not known"]


NEW_NODE_STATES = {"24.05": "BLOCKED", "25.05": "EXTERNAL", "later": "DREAMING"}


@pytest.mark.parametrize("word", NEW_NODE_STATES.values())
def test_a_node_with_a_new_flag_is_left_alone_and_the_flag_is_the_reason(word: str) -> None:
    (node,), _ = parse_nodes(written("nodes", "25.05").splitlines()[0].replace("State=IDLE", f"State=IDLE+{word}"))
    assert node.state is NodeState.IDLE
    partitions = {"freetrain": Partition("freetrain", frozenset({"g01"}))}
    facts = Facts(Snapshot(0.0, (node,), (), partitions=partitions))
    rules = NodeRules(FragmentQueue("freetrain"))
    found = judge_nodes(NodeContext(facts, Memory(), Shadow(0.0, (), frozenset()), rules))
    assert found.offered == ()
    assert found.withheld == {"g01": f"Slurm says IDLE+{word}"}


def test_a_node_that_a_topology_block_keeps_for_itself_starts_no_job_of_the_sites() -> None:
    assert not facts_of_state("IDLE+BLOCKED")["starts_jobs"]


@pytest.mark.parametrize(
    "reason",
    [
        "MpiPortsBusy", "MaxPoweredUpNodes", "ReservationInvalid", "RaisedSignal", "Constraints",
        "NvidiaImexChannels", "SomethingNew",
    ],
)  # fmt: skip
def test_who_waits_for_a_new_reason_claims_no_nodes(reason: str) -> None:
    assert waits_for(reason) is WaitsFor.OTHER


@pytest.mark.parametrize(
    "reason",
    [
        "AssocGrpJobsLimit",
        "QOSGrpJobsLimit",
        "MaxCpuRunMinsPerAccount",
        "MaxNodeRunMinsPerUser",
        "MaxGRESPerUser",
    ],
)
def test_a_new_limit_of_its_owners_is_one(reason: str) -> None:
    assert waits_for(reason) is WaitsFor.OWNERS_LIMIT
