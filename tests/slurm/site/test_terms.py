"""Terms that no other test has: what confines fragments on parts of nodes, and limits of accounts."""

from __future__ import annotations

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Partition
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.harm import Premise
from freetrain.slurm.site.terms import judge_terms
from tests.slurm.site.rows import association_row, partition_row, qos_row

OWN = Partition("freetrain", frozenset({"n1"}))
CONF = {"PreemptType": "preempt/partition_prio"}
LIMITED = CONF | {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageEnforce": "associations,limits,qos",
}


def found(in_parts: bool, **fields: str) -> list[str]:
    conf = {**CONF, **{key: value for key, value in fields.items() if key in ("TaskPlugin", "ProctrackType")}}
    row = partition_row(OWN, **{key: value for key, value in fields.items() if key not in conf})
    findings = judge_terms(Site(conf, {"freetrain": row}), Premise(FragmentQueue("freetrain"), in_parts=in_parts))
    assert not any(finding.is_unsafe for finding in findings)
    return [f"{finding.what} {finding.mend}" for finding in findings]


def test_where_parts_of_nodes_are_lent_nothing_confines_jobs_without_cgroups() -> None:
    processes, cores = found(True, TaskPlugin="task/affinity", ProctrackType="proctrack/linuxproc")
    assert "Nothing confines a job" in cores
    assert "TaskPlugin=task/affinity,task/cgroup" in cores
    assert "ProctrackType=proctrack/linuxproc" in processes
    assert found(True, TaskPlugin="task/affinity,task/cgroup", ProctrackType="proctrack/cgroup") == []
    assert found(False, TaskPlugin="(null)", ProctrackType="proctrack/linuxproc") == []


def test_a_limit_of_cpus_matters_to_whole_nodes_only() -> None:
    confined = {"TaskPlugin": "task/cgroup", "ProctrackType": "proctrack/cgroup"}
    assert found(True, MaxCPUsPerNode="8", **confined) == []
    assert "fragments ask for whole nodes" in found(False, MaxCPUsPerNode="8")[0]


def account_limits(*associations: dict[str, str]) -> list[str]:
    fenced = {"GrpTRES": "node=1", "MaxSubmitPU": "1000", "UsageFactor": "0"}
    rows = {"normal": qos_row("normal"), "spare": qos_row("spare", **fenced)}
    site = Site(LIMITED, {"main": partition_row(Partition("main", frozenset({"n1"})))}, rows, associations)
    findings = judge_terms(site, Premise(FragmentQueue("main", "spare")))
    assert all(finding.mend == "" for finding in findings)
    return [finding.what for finding in findings]


def test_accounts_and_users_in_whose_limits_fragments_count_are_named() -> None:
    both = "normal,spare"
    assert account_limits(association_row("ml"), association_row("ml", "alice", QOS=both)) == []
    (what,) = account_limits(
        association_row("root"),
        association_row("science", GrpJobs="40"),
        association_row("ml", ParentName="science", GrpTRES="cpu=96"),
        association_row("ml", "alice", QOS=both, MaxJobs="9"),
        association_row("bio", GrpTRES="cpu=8"),
        association_row("bio", "bob"),
    )
    assert (
        "account science (GrpJobs=40), account ml (GrpTRES=cpu=96), user alice in account ml (MaxJobs=9): a job"
        in what
    ), "nobody of bio may have the QOS of fragments"
