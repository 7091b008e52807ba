from __future__ import annotations

import pytest

from freetrain.core.job import JobState, LimitOf, SharedLimit, WaitsFor
from freetrain.core.node import NodeState
from freetrain.slurm.states import facts_of_state, job_state, shared_limit_of, unknown_job_state, waits_for


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        ("IDLE", NodeState.IDLE, "IDLE"),
        ("ALLOCATED*", NodeState.DOWN, "ALLOCATED+NOT_RESPONDING"),
        ("DOWN*", NodeState.DOWN, "DOWN+NOT_RESPONDING"),
        ("IDLE+CLOUD+POWERED_DOWN", NodeState.IDLE, "IDLE+POWERED_DOWN"),
        ("IDLE-", NodeState.IDLE, "IDLE+PLANNED"),
        ("MIXED+DRAIN", NodeState.BUSY, "MIXED+DRAIN"),
        ("UNKNOWN", NodeState.UNKNOWN, "UNKNOWN"),
        ("TELEPORTING", NodeState.UNKNOWN, "TELEPORTING"),
    ],
)
def test_states_of_nodes(text: str, state: NodeState, said: str) -> None:
    facts = facts_of_state(text)
    assert (facts["state"], facts["state_text"]) == (state, said)


@pytest.mark.parametrize(
    ("text", "may_be_lent", "is_wanted", "starts_jobs"),
    [
        ("IDLE+CLOUD", True, False, True),
        ("IDLE+PLANNED", True, True, True),
        ("IDLE+DRAIN", False, True, False),
        ("ALLOCATED+MAINTENANCE", False, True, True),
        ("IDLE+COMPLETING", False, False, True),
        ("IDLE+SOMETHING_NEW", False, False, True),
        ("IDLE*", False, False, False),
    ],
)
def test_what_they_say_of_lending(text: str, may_be_lent: bool, is_wanted: bool, starts_jobs: bool) -> None:
    facts = facts_of_state(text)
    assert (facts["may_be_lent"], facts["is_wanted"], facts["starts_jobs"]) == (
        may_be_lent,
        is_wanted,
        starts_jobs,
    )


@pytest.mark.parametrize(
    ("reason", "meant"),
    [
        ("", WaitsFor.NODES),
        ("Priority", WaitsFor.NODES),
        ("Resources", WaitsFor.NODES),
        ("JobHeldAdmin", WaitsFor.RELEASE),
        ("BeginTime", WaitsFor.TIME),
        ("QOSMaxNodePerUserLimit", WaitsFor.OWNERS_LIMIT),
        ("AssocGrpCpuLimit", WaitsFor.OWNERS_LIMIT),
        ("PartitionNodeLimit", WaitsFor.OWNERS_LIMIT),
        ("BadConstraints", WaitsFor.POSSIBILITY),
        ("Dependency", WaitsFor.ITSELF),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-3]", WaitsFor.NODES),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            WaitsFor.NODES,
        ),
        ("Licenses", WaitsFor.ITSELF),
        ("SomethingNew", WaitsFor.OTHER),
    ],
)
def test_reasons_of_waiting_jobs(reason: str, meant: WaitsFor) -> None:
    assert waits_for(reason) is meant


def test_states_of_jobs() -> None:
    assert job_state("CANCELLED by 1000") is JobState.CANCELLED
    assert job_state("TELEPORTING") is JobState.UNKNOWN
    assert [*unknown_job_state("CANCELLED by 1000"), *unknown_job_state("REVOKED")] == []
    assert unknown_job_state("TELEPORTING") == ("state 'TELEPORTING' is not known",)


@pytest.mark.parametrize(
    ("reason", "of", "counts"),
    [
        ("AssocGrpCpuLimit", LimitOf.ACCOUNT, "cpu"),
        ("AssocGrpMemLimit", LimitOf.ACCOUNT, "mem"),
        ("AssocGrpNodeLimit", LimitOf.ACCOUNT, "node"),
        ("AssocGrpGRES", LimitOf.ACCOUNT, "gres"),
        ("AssocGrpJobsLimit", LimitOf.ACCOUNT, "jobs"),
        ("AssocGrpBilling", LimitOf.ACCOUNT, ""),
        ("AssocGrpCPURunMinutesLimit", LimitOf.ACCOUNT, ""),
        ("AssocMaxJobsLimit", LimitOf.USER, "jobs"),
        ("QOSGrpCpuLimit", LimitOf.QOS, "cpu"),
        ("QOSMaxJobsPerUserLimit", LimitOf.QOS_AND_USER, "jobs"),
        ("QOSMaxGRESPerUser", LimitOf.QOS_AND_USER, "gres"),
        ("QOSMaxMemoryPerUser", LimitOf.QOS_AND_USER, "mem"),
        ("MaxCpuPerAccount", LimitOf.QOS_AND_ACCOUNT, "cpu"),
    ],
)
def test_limits_in_which_other_jobs_count(reason: str, of: LimitOf, counts: str) -> None:
    assert shared_limit_of(reason) == SharedLimit(of, counts)
    assert waits_for(reason) is WaitsFor.OWNERS_LIMIT


@pytest.mark.parametrize(
    "reason",
    [
        "Resources", "AssocMaxCpuPerJobLimit", "AssocMaxWallDurationPerJobLimit", "AssocGrpCPUMinutesLimit",
        "AssocGrpWallLimit", "AssocGrpSubmitJobsLimit", "QOSMaxCpuPerJobLimit", "QOSMaxNodePerJobLimit",
        "PartitionNodeLimit", "JobArrayTaskLimit", "",
    ],
)  # fmt: skip
def test_other_limits_are_the_jobs_own_or_what_was_used(reason: str) -> None:
    assert shared_limit_of(reason) is None
