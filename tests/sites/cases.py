"""Planted configurations; what freetrain does in each of them stands in docs/reference/sites.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.cli.planted_site import Kind
from tests.sites.living_site import NOW_S, LivingSite

Plant = Callable[[LivingSite], object]
LEND = "[lend]\nshare = '{}'\n"


@dataclass(frozen=True)
class Case:
    """A configuration.

    Attributes:
        name: for people.
        plant: makes it, on a site without mistakes.
        kind: how that site preempts.
    """

    name: str
    plant: Plant
    kind: Kind = Kind.TIERS


def nothing(site: LivingSite) -> None:
    """As it is."""


def conf(*lines: str) -> Plant:
    """Lines of slurm.conf."""
    return lambda site: [site.conf(line) for line in lines]


def partition(name: str, *changes: str) -> Plant:
    """Changes of a partition."""
    return lambda site: site.partition(name, *changes)


def qos(name: str, **fields: str) -> Plant:
    """Changes of a QOS."""
    return lambda site: site.qos.setdefault(name, site.qos["normal"] | {"Name": name, "Preempt": ""}).update(
        fields
    )


def toml(text: str) -> Plant:
    """Settings of freetrain's."""
    return lambda site: setattr(site, "toml", text)


def every(*plants: Plant) -> Plant:
    """All of these."""
    return lambda site: [plant(site) for plant in plants]


def node(name: str, **fields: str) -> Plant:
    """Changes of a node."""
    return lambda site: site.node(name, **fields)


def runs(nodes: str, **fields: str) -> Plant:
    """Job 9 has these nodes for another hour."""
    return lambda site: site.runs("9", nodes, **fields)


def waits(**fields: str) -> Plant:
    """Job 9 waits."""
    return lambda site: site.waits("9", **fields)


def training(asks: dict[str, str] | None = None, **fields: str) -> Plant:
    """Training 7 waits."""
    return lambda site: site.training("7", asks, **fields)


def reservation(nodes: str, after_s: int) -> Plant:
    """Somebody's, an hour long."""
    start_s = NOW_S + after_s
    line = f"ReservationName=r StartTime={start_s} EndTime={start_s + 3600} Nodes={nodes} Flags=SPEC_NODES\n"

    def plant(site: LivingSite) -> None:
        site.reservations = line

    return plant


A100, H100 = {"Gres": "gpu:a100:4", "GresUsed": "gpu:a100:0"}, {"Gres": "gpu:h100:4", "GresUsed": "gpu:h100:0"}
MIG = {
    "Gres": "gpu:1g.10gb:7", "GresUsed": "gpu:1g.10gb:3", "State": "MIXED", "CPUAlloc": "3", "CPUTot": "16",
    "CPUEfctv": "16",
}  # fmt: skip
SHARDS = {"Gres": "gpu:a100:1,shard:a100:8", "GresUsed": "gpu:a100:0,shard:a100:3", "State": "MIXED"}

CASES = (
    # How Slurm preempts
    Case("preemption by tiers of partitions", nothing),
    Case("by QOS, freetrain has a partition of its own", nothing, Kind.QOS),
    Case("by QOS, fragments run in the site's own partition", nothing, Kind.SHARED),
    Case("the same, a QOS of the site's may not preempt", qos("urgent"), Kind.SHARED),
    Case("the same, the QOS of fragments may preempt the site's", qos("scavenger", Preempt="normal"), Kind.SHARED),
    Case(
        "the same, but PreemptType=preempt/partition_prio", conf("PreemptType=preempt/partition_prio"), Kind.SHARED
    ),
    Case("the same, PreemptMode=suspend of the QOS", qos("scavenger", PreemptMode="suspend"), Kind.SHARED),
    Case(
        "the same, GrpTRES on the partition's QOS",
        every(qos("part", Preempt="scavenger", GrpTRES="node=4"), partition("main", "QoS=part")),
        Kind.SHARED,
    ),
    Case("exempt time of 20 s of the QOS", qos("scavenger", PreemptExemptTime="00:00:20"), Kind.SHARED),
    Case("exempt time of 5 min of the QOS", qos("scavenger", PreemptExemptTime="00:05:00"), Kind.SHARED),
    Case("exempt time of 5 min of a QOS, preemption by tiers", qos("scavenger", PreemptExemptTime="00:05:00")),
    Case("GraceTime of 30 s", partition("freetrain", "GraceTime=30")),
    Case(
        "the same, with send_user_signal",
        every(partition("freetrain", "GraceTime=30"), conf("PreemptParameters=send_user_signal")),
    ),
    Case(
        "PreemptMode=SUSPEND,GANG",
        every(conf("PreemptMode=SUSPEND,GANG"), partition("freetrain", "PreemptMode=SUSPEND,GANG")),
    ),
    Case("youngest_first", conf("PreemptParameters=youngest_first")),
    Case("reclaim_licenses", conf("PreemptParameters=reclaim_licenses")),
    Case("min_exempt_priority", conf("PreemptParameters=min_exempt_priority=1000")),
    Case("no accounting", conf("AccountingStorageType=accounting_storage/none")),
    # Partitions and the site's jobs
    Case("a partition that overlaps, of the same tier", partition("debug", "PriorityTier=0")),
    Case("a partition of the same tier, with other nodes", partition("debug", "PriorityTier=0", "Nodes=x[1-9]")),
    Case("a job of the site's on n002", runs("n002")),
    Case("a job of the site's on n002, in the partition of fragments", runs("n002"), Kind.SHARED),
    Case("a preemptible job without a tag on n002", runs("n002", q="scavenger"), Kind.SHARED),
    Case("a job of the site's that would start on two nodes", waits(D="2")),
    Case("the same, in the partition of fragments", waits(D="2"), Kind.SHARED),
    Case("a job that waits for n003 by name", waits(n="n003")),
    Case("a job that waits for a licence", waits(r="Licenses")),
    Case("a job that waits for a burst buffer", waits(r="BurstBufferResources")),
    Case("freetrain's partition is down", partition("freetrain", "State=DOWN")),
    # Nodes
    Case("a reservation of n004 that begins in an hour", reservation("n004", 3600)),
    Case(
        "maintenance of n004 that has begun",
        every(reservation("n004", -60), node("n004", State="IDLE+MAINTENANCE+RESERVED")),
    ),
    Case("n004 is powered down", node("n004", State="IDLE+CLOUD+POWERED_DOWN")),
    Case(
        "idle nodes are powered down, lend.spare_suspendable",
        every(
            conf("SuspendTime=300 sec", "SuspendProgram=/sbin/off", "SuspendExcNodes=n001"),
            toml("[lend]\nspare_suspendable = true\n"),
        ),
    ),
    Case("n004 is drained", node("n004", State="IDLE+DRAIN")),
    Case("n004 in a state that freetrain does not know", node("n004", State="IDLE+DREAMING")),
    # What trainings ask for
    Case(
        "features: a training that asks for ib, which n002 has",
        every(node("n002", ActiveFeatures="ib"), training(f="ib")),
    ),
    Case(
        "two types of GPU: a training that asks for an h100",
        every(node("n001", **A100), node("n002", **H100), training({"tres-per-node": "gres:gpu:h100:2"})),
    ),
    Case(
        "a training that asks for a GPU type that no node has",
        every(node("n001", **A100), training({"tres-per-node": "gres:gpu:h100:2"})),
    ),
    Case("a training that asks for a licence", training({"Licenses": "matlab:1"})),
    Case("a training that asks for a burst buffer", training({"BurstBuffer": "#DW jobdw capa"})),
    # Parts of nodes
    Case("jobs share n001, lend.share = whole", every(node("n001", State="MIXED", CPUAlloc="1"), runs("n001"))),
    Case(
        "jobs share n001, lend.share = any",
        every(
            node("n001", State="MIXED", CPUAlloc="1"),
            runs("n001"),
            training(),
            toml(LEND.format("any")),
            conf("TaskPlugin=task/cgroup", "ProctrackType=proctrack/cgroup"),
        ),
    ),
    Case(
        "the same, as Slurm 26.05 says it: OverSubscribe=NO and Exclusive=NO",
        every(
            node("n001", State="MIXED", CPUAlloc="1"),
            runs("n001"),
            training({"oversubscribe": "NO", "Exclusive": "NO"}),
            toml(LEND.format("any")),
            conf("TaskPlugin=task/cgroup", "ProctrackType=proctrack/cgroup"),
        ),
    ),
    Case(
        "the same, the training has whole nodes: Exclusive=NODE",
        every(
            node("n001", State="MIXED", CPUAlloc="1"),
            runs("n001"),
            training({"oversubscribe": "NO", "Exclusive": "NODE"}),
            toml(LEND.format("any")),
            conf("TaskPlugin=task/cgroup", "ProctrackType=proctrack/cgroup"),
        ),
    ),
    Case(
        "jobs share n001, lend.share = any, nothing confines jobs (no cgroup)",
        every(node("n001", State="MIXED", CPUAlloc="1"), runs("n001"), training(), toml(LEND.format("any"))),
    ),
    Case(
        "MIG profiles: three of seven are used",
        every(
            node("n001", **MIG),
            runs("n001"),
            training({"tres-per-node": "gres:gpu:1g.10gb:1"}),
            toml(LEND.format("gpus")),
            conf("TaskPlugin=task/cgroup", "ProctrackType=proctrack/cgroup"),
        ),
    ),
    Case(
        "shards of a GPU: three of eight are used",
        every(
            node("n001", **SHARDS),
            runs("n001"),
            training({"tres-per-node": "gres:shard:a100:1"}),
            toml(LEND.format("any")),
            conf("TaskPlugin=task/cgroup", "ProctrackType=proctrack/cgroup"),
        ),
    ),
)
