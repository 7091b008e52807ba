"""On what terms fragments run: whether the partition takes them, what fences them, what they cost. Pure.

Nothing of it harms the site's jobs; all of it is said once, when the configuration is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding, update
from freetrain.slurm.layout_facts import PartitionRules, SlurmLayout
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.terms_facts import QosTerms

_LITTLE = 0.25
"""A lent node that is charged like this share of an ordinary one, or less, costs its user little."""


@dataclass(frozen=True)
class Terms:
    """What is judged.

    Attributes:
        layout: Slurm's.
        queue: where fragments wait and run.
        shortest_hole_s: the shortest in which something is lent.
        spares_suspendable: whether nodes that Slurm powers down are left alone.
        qos: by name; none where there is no accounting.
        in_parts: whether parts of nodes are lent.
        most_nodes: how many may be lent in all partitions of the queue together; 0: as many as this one has.
    """

    layout: SlurmLayout
    queue: FragmentQueue
    shortest_hole_s: float
    spares_suspendable: bool
    qos: Mapping[str, QosTerms] = field(default_factory=dict)
    in_parts: bool = False
    most_nodes: int = 0

    @property
    def ours(self) -> PartitionRules:
        """The partition in which fragments run."""
        return self.layout.partitions[self.queue.partition]

    @property
    def fragment_qos(self) -> list[QosTerms]:
        """Those that fragments may have."""
        named = self.queue.qos
        return [
            one
            for name, one in sorted(self.qos.items())
            if (name == named if named else self.ours.admits_qos(name))
        ]


def judge_terms(terms: Terms) -> list[Finding]:
    """All that is not as it should be.

    1. The partition takes jobs of one whole node, from users, for as long as the shortest hole.
    2. Jobs end at their limits.
    3. A limit of Slurm's own fences what runs there.
    4. A lent node costs its user nothing or little.
    5. Somebody has decided about nodes that Slurm powers down.
    6. Where parts of nodes are lent, a fragment is confined to its own, and ends with all that it started.
    """
    partitions = {name: one.partition for name, one in terms.layout.partitions.items()}
    nodes = len(terms.queue.among(partitions).nodes)
    return list(
        dict.fromkeys(
            finding
            for name in terms.queue.partitions
            for finding in _of_one(replace(terms, queue=FragmentQueue(name, terms.queue.qos), most_nodes=nodes))
        )
    )


def _of_one(terms: Terms) -> Iterator[Finding]:
    yield from _of_submission(terms)
    yield from _of_time(terms)
    yield from _of_fence(terms)
    yield from _of_charges(terms)
    yield from _of_power(terms)
    yield from _of_confinement(terms)


def _of_submission(terms: Terms) -> Iterator[Finding]:
    ours, name = terms.ours, terms.ours.name
    if ours.root_only:
        yield Finding(f"Only root may submit to partition {name} (RootOnly).", update(name, "RootOnly=NO"))
    if ours.reserved_only:
        yield Finding(f"Partition {name} takes jobs in reservations only (ReqResv).", update(name, "ReqResv=NO"))
    if ours.min_nodes > 1:
        yield Finding(
            f"Partition {name} takes no jobs of one node (MinNodes={ours.min_nodes}).", update(name, "MinNodes=0")
        )
    if ours.max_nodes < 1:
        yield Finding(f"Partition {name} takes no jobs (MaxNodes=0).", update(name, "MaxNodes=1"))
    if ours.max_cpus < float("inf") and not terms.in_parts:
        yield Finding(
            f"Jobs in partition {name} have {ours.max_cpus:.0f} CPUs of a node at most (MaxCPUsPerNode), and "
            "fragments ask for whole nodes.",
            update(name, "MaxCPUsPerNode=UNLIMITED"),
            False,
        )


def _of_time(terms: Terms) -> Iterator[Finding]:
    ours = terms.ours
    if ours.partition.max_time_s < terms.shortest_hole_s:
        yield Finding(
            f"Jobs in partition {ours.name} run {show_duration(ours.partition.max_time_s)} at most (MaxTime), "
            "less than lend.shortest_hole.",
            update(ours.name, "MaxTime=1-00:00:00"),
            False,
        )
    over_s = terms.layout.settings.over_s if ours.over_s is None else ours.over_s
    if over_s > 0:
        yield Finding(
            f"Fragments may go on for {show_duration(over_s)} after their limit (OverTimeLimit): the nodes of "
            "holes that end are not free in time.",
            update(ours.name, "OverTimeLimit=0"),
            False,
        )


def _of_fence(terms: Terms) -> Iterator[Finding]:
    settings, ours = terms.layout.settings, terms.ours
    if not settings.has_accounting:
        return
    if not settings.enforces & {"limits", "safe"}:
        enforced = ",".join(sorted(settings.enforces - {"", "none"} | {"associations", "limits", "qos"}))
        yield Finding(
            "Slurm enforces no limits: nothing but freetrain's own hold what runs in its partition.",
            f"AccountingStorageEnforce={enforced}",
            False,
        )
        return
    nodes = terms.most_nodes or len(ours.partition.nodes)
    if name := terms.queue.qos:
        yield from _of_limits_of_each(terms)
        if not terms.qos.get(name, QosTerms(name)).fences:
            yield Finding(
                f"QOS {name} has no limit: nothing but freetrain's own hold what runs with it.",
                f"sacctmgr -i modify qos {name} set GrpTRES=node={nodes}",
                False,
            )
    elif ours.qos and not terms.qos.get(ours.qos, QosTerms(ours.qos)).fences:
        yield Finding(
            f"QOS {ours.qos} of partition {ours.name} has no limit: nothing but freetrain's hold what runs there.",
            f"sacctmgr -i modify qos {ours.qos} set GrpTRES=node={nodes}",
            False,
        )
    elif not ours.qos and not all(one.fences for one in terms.fragment_qos):
        add = [] if ours.name in terms.qos else [f"sacctmgr -i add qos {ours.name}"]
        lines = [
            *add,
            f"sacctmgr -i modify qos {ours.name} set GrpTRES=node={nodes}",
            update(ours.name, f"QOS={ours.name}"),
        ]
        yield Finding(
            f"Partition {ours.name} has no QOS with limits: nothing but freetrain's own hold what runs there.",
            "\n".join(lines),
            False,
        )


def _of_limits_of_each(terms: Terms) -> Iterator[Finding]:
    """What fragments have in the site's partition counts in its QOS's limits of each user, and of each account."""
    ours, name = terms.ours, terms.queue.qos
    limits = [one for one in terms.qos.get(ours.qos, QosTerms(ours.qos)).fences if one.startswith("Max")]
    if limits and ours.admitted_qos != frozenset({name}):
        yield Finding(
            f"QOS {ours.qos} limits what each user or account has in partition {ours.name} ({', '.join(limits)}), "
            "fragments among it: jobs of owners of trainings may wait for their own fragments. In a partition of "
            "their own these do not count.",
            f"PartitionName=freetrain Nodes={fold_nodes(ours.partition.nodes)} AllowQos={name} State=UP\n"
            f'[slurm]\npartition = "freetrain"\nqos = "{name}"',
            False,
        )


def _of_charges(terms: Terms) -> Iterator[Finding]:
    ours = terms.ours
    if not terms.layout.settings.charges or _is_free(ours.billing):
        return
    dear = [one for one in terms.fragment_qos if one.usage_factor > _LITTLE]
    if not dear:
        return
    named = ", ".join(f"{one.name} {one.usage_factor:g}" for one in dear)
    is_fenced = ours.allow_qos is not None or bool(terms.queue.qos)
    mends = [f"sacctmgr -i modify qos {one.name} set UsageFactor=0" for one in dear]
    yield Finding(
        f"A lent node counts against its user as any other (UsageFactor of QOS {named}; TRESBillingWeights of "
        f"partition {ours.name} {_shown(ours.billing)}): users pay for nodes that are taken away from them.",
        "\n".join(mends) if is_fenced else update(ours.name, "TRESBillingWeights=CPU=0.0"),
        False,
    )


def _of_power(terms: Terms) -> Iterator[Finding]:
    settings = terms.layout.settings
    if settings.suspend_s < float("inf") and not terms.spares_suspendable:
        yield Finding(
            f"Slurm powers nodes down that are idle for {show_duration(settings.suspend_s)}. A lent node is not "
            "idle, so lending keeps it powered up; freetrain never wakes one that is down.",
            "[lend]\nspare_suspendable = true",
            False,
        )


def _of_confinement(terms: Terms) -> Iterator[Finding]:
    settings = terms.layout.settings
    if not terms.in_parts:
        return
    if "task/cgroup" not in settings.task_plugins:
        plugins = ",".join(sorted(settings.task_plugins - {"", "task/none"} | {"task/cgroup"}))
        yield Finding(
            "Nothing confines a job to the CPUs, the memory and the GPUs that it was given (TaskPlugin): a "
            "fragment on part of a node can use those of the jobs beside it (lend.share).",
            f"TaskPlugin={plugins}\n# cgroup.conf: ConstrainCores=yes ConstrainRAMSpace=yes ConstrainDevices=yes",
            False,
        )
    if settings.process_tracking != "proctrack/cgroup":
        yield Finding(
            f"What a fragment leaves running is not found (ProctrackType={settings.process_tracking}): on part of "
            "a node it stays beside other jobs (lend.share).",
            "ProctrackType=proctrack/cgroup",
            False,
        )


def _is_free(billing: Mapping[str, float] | None) -> bool:
    return billing is not None and not any(billing.values())


def _shown(billing: Mapping[str, float] | None) -> str:
    return "not set" if billing is None else ",".join(f"{key}={weight:g}" for key, weight in billing.items())
