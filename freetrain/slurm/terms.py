"""On what terms fragments run: whether the partition takes them, what fences them, what they cost. Pure.

Nothing of it harms the site's jobs; all of it is said once, when the configuration is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.durations import show_duration
from freetrain.slurm.fences import judge_fences
from freetrain.slurm.finding import Finding, update
from freetrain.slurm.terms_facts import Terms

_LITTLE = 0.25
"""A lent node that is charged like this share of an ordinary one, or less, costs its user little."""


def judge_terms(terms: Terms) -> list[Finding]:
    """All that is not as it should be.

    1. The partition takes jobs of one whole node, from users, for as long as the shortest hole.
    2. Jobs end at their limits.
    3. Limits of Slurm's own fence what runs there, and what waits to.
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
    yield from judge_fences(terms)
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
