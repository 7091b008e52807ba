"""The first configuration for a Slurm, told by its texts."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.daemon.admission.inspection import choose_queue, propose
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.site.advice import best_plan
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.harm import Premise
from tests.slurm.site.rows import qos_rows, site_of

MAIN = (
    "PartitionName=main Nodes=n[1-4] State=UP PriorityTier=9 PreemptMode=OFF GraceTime=0 MaxTime=UNLIMITED "
    "Default=YES "
)
LOW = MAIN.replace("main", "spare").replace("=YES", "=NO").replace("=9", "=1").replace("=OFF", "=REQUEUE")
QOS = qos_rows(normal="idle", urgent="idle", idle="")


def site(preempts: str, *partitions: str, qos: Mapping[str, Row] = QOS) -> Site:
    return site_of(f"PreemptType = preempt/{preempts}\nPreemptMode = REQUEUE\n", "\n".join(partitions), qos)


def test_a_partition_of_freetrains_own_is_taken() -> None:
    own = LOW.replace("spare", "freetrain")
    assert choose_queue(site("partition_prio", MAIN, LOW, own)) == FragmentQueue("freetrain")
    assert choose_queue(site("qos", MAIN, own)) == FragmentQueue("freetrain", "idle")


def test_or_one_that_is_safe() -> None:
    assert choose_queue(site("partition_prio", MAIN, LOW)) == FragmentQueue("spare")


def test_or_the_default_one_with_the_qos_that_others_preempt() -> None:
    found = propose(site("qos", MAIN))
    assert (found["slurm.partition"], found["slurm.qos"]) == ("main", "idle")
    assert choose_queue(site("qos", MAIN, qos={})) == FragmentQueue("main", "freetrain"), "it is to be made"


def test_where_nothing_is_preempted_by_qos_a_partition_is_to_be_made() -> None:
    found = propose(site("partition_prio", MAIN))
    assert found["slurm.partition"] == "freetrain"
    assert "slurm.qos" not in found


def test_a_partition_to_be_made_has_the_nodes_of_all_partitions_and_lies_below_those_of_tier_0() -> None:
    main = "PartitionName=main Nodes=n[1-2] State=UP PriorityTier=0 PreemptMode=OFF GraceTime=0 MaxTime=UNLIMITED "
    gpus = main.replace("main", "gpus").replace("n[1-2]", "g1")
    plan = best_plan(site("partition_prio", main + "Default=YES", gpus), Premise(FragmentQueue("freetrain")))
    assert plan is not None
    tiers = {name: own.partition.priority_tier for name, own in plan.site.partitions.items()}
    assert tiers == {"main": 1, "gpus": 1, "freetrain": 0}
    assert plan.site.partitions["freetrain"].partition.nodes == {"n1", "n2", "g1"}
