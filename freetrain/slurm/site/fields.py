"""Values of single fields that fit no fragment: which, why, and the value that does. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field of a partition, a QOS or slurm.conf, some of whose values do not fit fragments.

    Attributes:
        key: the field, as Slurm shows it.
        is_wrong: whether a value does not fit.
        why: a sentence, with ``{name}`` and ``{value}``.
        right: a value that fits.
        is_unsafe: whether no fragment can start, or the site's jobs could wait.
        of_whole_nodes: whether the rule holds only where whole nodes are lent.
    """

    key: str
    is_wrong: Callable[[str], bool]
    why: str
    right: str
    is_unsafe: bool = False
    of_whole_nodes: bool = False


def number(text: str) -> float:
    """The number that a value such as ``30 sec`` begins with; inf: there is none."""
    words = text.split()
    return float(words[0]) if words and words[0].isdecimal() else inf


def _is_limited(text: str) -> bool:
    return text not in ("", "UNLIMITED", "0", "(null)")


def _is_yes(text: str) -> bool:
    return text == "YES"


OF_PARTITION = (
    FieldRule("RootOnly", _is_yes, "Only root may submit to partition {name} (RootOnly).", "NO", True),
    FieldRule("ReqResv", _is_yes, "Partition {name} takes jobs in reservations only (ReqResv).", "NO", True),
    FieldRule(
        "MinNodes", lambda text: 1 < number(text) < inf,
        "Partition {name} takes no jobs of one node (MinNodes={value}).", "0", True,
    ),
    FieldRule("MaxNodes", lambda text: text == "0", "Partition {name} takes no jobs (MaxNodes=0).", "1", True),
    FieldRule(
        "MaxCPUsPerNode", _is_limited,
        "Jobs in partition {name} have {value} CPUs of a node at most (MaxCPUsPerNode), and fragments ask for "
        "whole nodes.", "UNLIMITED", of_whole_nodes=True,
    ),
    FieldRule(
        "MaxCPUsPerSocket", _is_limited,
        "Jobs in partition {name} have {value} CPUs of a socket at most (MaxCPUsPerSocket), and fragments ask for "
        "whole nodes.", "UNLIMITED", of_whole_nodes=True,
    ),
    FieldRule(
        "MaxMemPerNode", _is_limited,
        "Jobs in partition {name} have {value} MB of a node at most (MaxMemPerNode), and trainings that need more "
        "never start.", "0",
    ),
    FieldRule(
        "MaxMemPerCPU", _is_limited,
        "Jobs in partition {name} have {value} MB for each CPU at most (MaxMemPerCPU), and trainings that need "
        "more get more CPUs, or never start.", "0",
    ),
    FieldRule(
        "AllocNodes", lambda text: text not in ("ALL", ""),
        "Jobs can be submitted to partition {name} from {value} alone (AllocNodes).", "ALL",
    ),
    FieldRule(
        "AllowGroups", lambda text: text not in ("ALL", "", "(null)"),
        "Only groups {value} may submit to partition {name} (AllowGroups).", "ALL",
    ),
    FieldRule(
        "ExclusiveUser", _is_yes,
        "A node with a fragment of partition {name} takes jobs of the fragment's owner alone (ExclusiveUser): "
        "other users' jobs wait for it.", "NO",
    ),
    FieldRule(
        "ExclusiveTopo", _is_yes,
        "A fragment of partition {name} keeps a whole block of nodes for itself (ExclusiveTopo).", "NO", True,
    ),
    FieldRule(
        "OverSubscribe", lambda text: text.startswith("FORCE"),
        "Slurm puts several fragments of partition {name} on the same CPUs (OverSubscribe={value}).", "NO",
    ),
    FieldRule(
        "OverSubscribe", lambda text: text.startswith("YES"),
        "Jobs in partition {name} may share CPUs with others (OverSubscribe={value}).", "NO",
    ),
)  # fmt: skip

_NONE_MAY = "QOS {name} lets no job run (%s=0): no fragment can start."
OF_QOS = (
    *(
        FieldRule(key, lambda text: text == "0", _NONE_MAY % key, "-1", True)
        for key in ("GrpJobs", "GrpSubmit", "MaxJobsPU", "MaxSubmitPU", "MaxJobsPA", "MaxSubmitPA")
    ),
    FieldRule(
        "Flags", lambda text: "RequiresReservation" in text.split(","),
        "Jobs with QOS {name} run in reservations only (Flags=RequiresReservation).", "RequiresReservation", True,
    ),
    FieldRule(
        "Flags", lambda text: "PartitionMinNodes" in text.split(","),
        "Jobs with QOS {name} have at least as many nodes as their partition says (Flags=PartitionMinNodes).",
        "PartitionMinNodes",
    ),
    FieldRule(
        "GrpWall", _is_limited,
        "All fragments with QOS {name} together run for {value} (GrpWall), and then none starts.", "-1",
    ),
)  # fmt: skip

OF_CONF = (
    FieldRule(
        "SchedulerType", lambda text: text != "sched/backfill",
        "Slurm does not plan (SchedulerType={value}): the ends of holes are not known.", "sched/backfill",
    ),
    FieldRule(
        "MinJobAge", lambda text: 0 < number(text) < 60,
        "Slurm forgets a job {value} after its end (MinJobAge): how a fragment ended may be gone before it is "
        "seen.",
        "300",
    ),
    FieldRule(
        "MaxJobCount", lambda text: number(text) < 1000,
        "Slurm keeps {value} jobs at most (MaxJobCount), the held tasks of trainings among them: then nobody can "
        "submit anything.", "10000",
    ),
    FieldRule(
        "JobRequeue", lambda text: text == "0",
        "Tasks that are preempted do not run again unless their owner asked for --requeue (JobRequeue=0).", "1",
    ),
    FieldRule(
        "InactiveLimit", lambda text: 0 < number(text) < 60,
        "Slurm ends jobs whose srun does not answer for {value} (InactiveLimit).", "0",
    ),
    FieldRule(
        "UnkillableStepTimeout", lambda text: 600 < number(text) < inf,
        "A fragment that cannot be killed keeps its node for {value} (UnkillableStepTimeout).", "60",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WordRule:
    """A word of SchedulerParameters or PreemptParameters, some of whose values do not fit fragments.

    Attributes:
        parameters: the setting in which it stands.
        word: its name.
        is_wrong: whether a value does not fit; empty where the word has none.
        why: a sentence, with ``{word}``.
        right: the value that fits; empty: without the word.
        is_unsafe: whether the site's jobs could wait.
    """

    parameters: str
    word: str
    is_wrong: Callable[[str], bool]
    why: str
    right: str = ""
    is_unsafe: bool = False


def _always(_value: str) -> bool:
    return True


def _below(bound: float) -> Callable[[str], bool]:
    return lambda text: 0 < number(text) < bound


def _above(bound: float) -> Callable[[str], bool]:
    return lambda text: bound < number(text) < inf


_YOUNGEST = "Slurm preempts those that began last ({word}): trainings lose what they booted."
OF_WORDS = (
    WordRule("PreemptParameters", "youngest_first", _always, _YOUNGEST),
    WordRule("SchedulerParameters", "preempt_youngest_first", _always, _YOUNGEST),
    WordRule(
        "PreemptParameters", "min_exempt_priority", _always,
        "Jobs of high priority are never preempted ({word}), and fragments may be such.", is_unsafe=True,
    ),
    WordRule(
        "PreemptParameters", "reclaim_licenses", _always,
        "A job that waits for a licence may start by preemption alone ({word}): it is not seen coming, and "
        "nothing is given back before.",
    ),
    WordRule(
        "SchedulerParameters", "defer", _always,
        "Jobs do not start when they are submitted (defer): holes are found later.",
    ),
    WordRule(
        "SchedulerParameters", "bf_interval", _above(300),
        "Slurm plans so seldom ({word}, in seconds) that a job of the site's which missed its cycle waits for the "
        "next one.", "30",
    ),
    WordRule(
        "SchedulerParameters", "partition_job_depth", _below(10),
        "Slurm looks at few waiting jobs of each partition ({word}): jobs behind these do not start on nodes that "
        "are given back.",
    ),
    WordRule(
        "SchedulerParameters", "default_queue_depth", _below(10),
        "Slurm looks at few waiting jobs when one ends ({word}): others wait for a backfill cycle.",
    ),
    WordRule(
        "SchedulerParameters", "bf_max_job_test", _below(50),
        "Slurm plans few waiting jobs ({word}): the ends of holes that others make are not known.",
    ),
    WordRule(
        "SchedulerParameters", "bf_max_job_part", _below(10),
        "Slurm plans few waiting jobs of each partition ({word}): the ends of holes that others make are not "
        "known.",
    ),
    WordRule(
        "SchedulerParameters", "bf_window", _below(60),
        "Slurm plans less than an hour ahead ({word}, in minutes): the ends of holes are not known.",
    ),
    WordRule(
        "SchedulerParameters", "sched_min_interval", _above(10_000_000),
        "Slurm's main scheduler runs seldom ({word}, in microseconds): nodes that are given back stay idle.",
    ),
)  # fmt: skip
