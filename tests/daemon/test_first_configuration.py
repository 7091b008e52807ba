"""The first configuration for a Slurm, told by its texts."""

from __future__ import annotations

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.daemon.admission.first_configuration import choose_queue, propose
from freetrain.slurm.layout_facts import SlurmLayout, parse_partition_rules, parse_qos
from freetrain.slurm.settings import parse_settings

MAIN = (
    "PartitionName=main Nodes=n[1-4] State=UP PriorityTier=9 PreemptMode=OFF GraceTime=0 MaxTime=UNLIMITED "
    "Default=YES "
)
LOW = MAIN.replace("main", "spare").replace("=YES", "=NO").replace("=9", "=1").replace("=OFF", "=REQUEUE")
QOS = "normal|idle|cluster|00:00:00||||\nurgent|idle|cluster|00:00:00||||\nidle||requeue|00:00:00||||\n"


def layout(preempts: str, *partitions: str, qos: str = QOS) -> SlurmLayout:
    settings = parse_settings(f"PreemptType = preempt/{preempts}\nPreemptMode = REQUEUE\n")
    return SlurmLayout(settings, parse_partition_rules("\n".join(partitions))[0], parse_qos(qos)[0])


def test_a_partition_of_freetrains_own_is_taken() -> None:
    own = LOW.replace("spare", "freetrain")
    assert choose_queue(layout("partition_prio", MAIN, LOW, own)) == FragmentQueue("freetrain")
    assert choose_queue(layout("qos", MAIN, own)) == FragmentQueue("freetrain")


def test_or_one_that_is_safe() -> None:
    assert choose_queue(layout("partition_prio", MAIN, LOW)) == FragmentQueue("spare")


def test_or_the_default_one_with_the_qos_that_others_preempt() -> None:
    found = propose(layout("qos", MAIN))
    assert (found["slurm.partition"], found["slurm.qos"]) == ("main", "idle")
    assert choose_queue(layout("qos", MAIN, qos="")) == FragmentQueue("main", "freetrain"), "it is to be made"


def test_where_nothing_is_preempted_by_qos_a_partition_is_to_be_made() -> None:
    found = propose(layout("partition_prio", MAIN))
    assert found["slurm.partition"] == "freetrain"
    assert "slurm.qos" not in found
