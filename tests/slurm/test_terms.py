"""On what terms fragments run that have parts of nodes."""

from __future__ import annotations

from dataclasses import replace

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Partition
from freetrain.slurm.layout_facts import PartitionRules, SlurmLayout
from freetrain.slurm.settings import parse_settings
from freetrain.slurm.terms import judge_terms
from freetrain.slurm.terms_facts import QosTerms, Terms

CONFIG = "PreemptType = preempt/partition_prio\nTaskPlugin = {}\nProctrackType = {}\n"


def said(task_plugins: str, tracking: str, in_parts: bool = True, max_cpus: float = float("inf")) -> list[str]:
    rules = PartitionRules(Partition("freetrain", frozenset({"n1"})), max_cpus=max_cpus)
    layout = SlurmLayout(parse_settings(CONFIG.format(task_plugins, tracking)), {"freetrain": rules})
    found = judge_terms(Terms(layout, FragmentQueue("freetrain"), 120.0, False, in_parts=in_parts))
    assert not any(one.is_unsafe for one in found)
    return [f"{one.what} {one.mend}" for one in found]


def test_who_lends_parts_of_nodes_is_told_that_nothing_confines_jobs() -> None:
    cores, processes = said("task/affinity", "proctrack/linuxproc")
    assert "Nothing confines a job" in cores
    assert "TaskPlugin=task/affinity,task/cgroup" in cores
    assert "ProctrackType=proctrack/linuxproc" in processes
    assert said("task/affinity,task/cgroup", "proctrack/cgroup") == []


def test_who_lends_whole_nodes_is_not() -> None:
    assert said("(null)", "proctrack/linuxproc", in_parts=False) == []


def test_a_limit_of_cpus_matters_to_whole_nodes_only() -> None:
    assert said("task/cgroup", "proctrack/cgroup", max_cpus=8) == []
    assert "fragments ask for whole nodes" in said("", "", in_parts=False, max_cpus=8)[0]


def test_who_shares_the_sites_partition_is_told_that_its_limits_of_each_user_count_fragments() -> None:
    layout = SlurmLayout(
        parse_settings(
            "PreemptType = preempt/qos\nAccountingStorageType = accounting_storage/slurmdbd\n"
            "AccountingStorageEnforce = limits,qos\n"
        ),
        {"main": PartitionRules(Partition("main", frozenset({"n1"})), qos="part")},
    )
    qos = {
        "part": QosTerms("part", fences=("MaxTRESPU=node=2",)),
        "spare": QosTerms("spare", 0.0, ("GrpTRES=node=1",), ("MaxSubmitPU=9",)),
    }
    (found,) = judge_terms(Terms(layout, FragmentQueue("main", "spare"), 120.0, False, qos))
    assert "QOS part limits what each user or account has in partition main (MaxTRESPU=node=2)" in found.what
    assert not found.is_unsafe
    own = replace(layout.partitions["main"], allow_qos=frozenset({"spare"}))
    alone = replace(layout, partitions={"main": own})
    assert judge_terms(Terms(alone, FragmentQueue("main", "spare"), 120.0, False, qos)) == []
