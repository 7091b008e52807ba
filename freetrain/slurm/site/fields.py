"""Values of single fields that fit no fragment, each with the reason and a value that fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf

from freetrain.slurm.finding import Finding, error_if
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.site.changes import SiteChange


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field of a partition, a QOS or slurm.conf, some of whose values do not fit fragments.

    Attributes:
        key: the field, as Slurm shows it; a word of a list as ``SchedulerParameters.defer`` (:func:`with_words`).
        is_wrong: whether a value does not fit.
        why: a sentence, with ``{name}`` of the partition or the QOS, and ``{value}``.
        right: a value that fits; of a word, empty: the list without it.
        is_unsafe: whether no fragment can start, or the site's jobs could wait.
        in_parts: True: it holds only where nodes are lent in parts; False: only where they are not.
    """

    key: str
    is_wrong: Callable[[str], bool]
    why: str
    right: str = ""
    is_unsafe: bool = False
    in_parts: bool | None = None


ChangeOf = Callable[[str, str], SiteChange]
"""The change of a field that has this key to this value."""


def judge_fields(
    rules: Iterable[FieldRule], row: Row, change: ChangeOf, in_parts: bool = False, name: str = ""
) -> Iterator[Finding]:
    """Fields of a row that do not fit."""
    for rule in rules:
        value = row.get(rule.key, "")
        if value and rule.in_parts in (None, in_parts) and rule.is_wrong(value):
            yield error_if(rule.is_unsafe, rule.why.format(name=name, value=value), change(rule.key, rule.right))


def with_words(row: Row, *lists: str) -> Row:
    """The row, and each word of these lists with commas as a field: ``Flags.denyonlimit``."""
    words = [(key, word) for key in lists for word in words_of(row.get(key, ""))]
    return {**row, **{f"{key}.{_name(word)}": word for key, word in words}}


def words_of(text: str) -> list[str]:
    """The words of a list with commas."""
    return [word for word in text.replace("(null)", "").split(",") if word]


def replaced(text: str, word: str, right: str = "") -> str:
    """A list with commas without the word of this name, or with another in its place."""
    kept = [other for other in words_of(text) if _name(other) != word]
    return ",".join([*kept, right] if right else kept)


def number(text: str) -> float:
    """The number with which a value such as ``30 sec`` or ``bf_interval=30`` begins; inf: there is none."""
    words = text.rpartition("=")[2].split()
    return float(words[0]) if words and words[0].isdecimal() else inf


def _name(word: str) -> str:
    return word.partition("=")[0].lower()


def _always(_value: str) -> bool:
    return True


def _is(*values: str) -> Callable[[str], bool]:
    return lambda text: text in values


def _is_not(*values: str) -> Callable[[str], bool]:
    return lambda text: text not in values


def _starts(beginning: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(beginning)


def _below(bound: float) -> Callable[[str], bool]:
    return lambda text: 0 < number(text) < bound


def _above(bound: float) -> Callable[[str], bool]:
    return lambda text: bound < number(text) < inf


_is_limited = _is_not("UNLIMITED", "0", "(null)")
_is_yes = _is("YES")
_WHOLE = "and fragments ask for whole nodes."
OF_PARTITION = (
    FieldRule("RootOnly", _is_yes, "Only root may submit to partition {name} (RootOnly).", "NO", True),
    FieldRule("ReqResv", _is_yes, "Partition {name} takes jobs in reservations only (ReqResv).", "NO", True),
    FieldRule("MinNodes", _above(1), "Partition {name} takes no jobs of one node (MinNodes={value}).", "0", True),
    FieldRule("MaxNodes", _is("0"), "Partition {name} takes no jobs (MaxNodes=0).", "1", True),
    FieldRule("MaxCPUsPerNode", _is_limited,
              "Jobs in partition {name} have {value} CPUs of a node at most (MaxCPUsPerNode), " + _WHOLE,
              "UNLIMITED", in_parts=False),
    FieldRule("MaxCPUsPerSocket", _is_limited,
              "Jobs in partition {name} have {value} CPUs of a socket at most (MaxCPUsPerSocket), " + _WHOLE,
              "UNLIMITED", in_parts=False),
    FieldRule("MaxMemPerNode", _is_limited,
              "Jobs in partition {name} have {value} MB of a node at most (MaxMemPerNode), and trainings that "
              "need more never start.", "0"),
    FieldRule("MaxMemPerCPU", _is_limited,
              "Jobs in partition {name} have {value} MB for each CPU at most (MaxMemPerCPU), and trainings that "
              "need more get more CPUs, or never start.", "0"),
    FieldRule("AllocNodes", _is_not("ALL"),
              "Jobs can be submitted to partition {name} from {value} alone (AllocNodes).", "ALL"),
    FieldRule("AllowGroups", _is_not("ALL", "(null)"),
              "Only groups {value} may submit to partition {name} (AllowGroups).", "ALL"),
    FieldRule("ExclusiveUser", _is_yes,
              "A node with a fragment of partition {name} takes jobs of the fragment's owner alone "
              "(ExclusiveUser): other users' jobs wait for it.", "NO"),
    FieldRule("ExclusiveTopo", _is_yes,
              "A fragment of partition {name} keeps a whole block of nodes for itself (ExclusiveTopo).", "NO",
              True),
    FieldRule("OverSubscribe", _starts("FORCE"),
              "Slurm puts several fragments of partition {name} on the same CPUs (OverSubscribe={value}).", "NO"),
    FieldRule("OverSubscribe", _starts("YES"),
              "Jobs in partition {name} may share CPUs with others (OverSubscribe={value}).", "NO"),
)  # fmt: skip

OF_QOS = (
    *(
        FieldRule(key, _is("0"), f"QOS {{name}} lets no job run ({key}=0): no fragment can start.", "-1", True)
        for key in ("GrpJobs", "GrpSubmit", "MaxJobsPU", "MaxSubmitPU", "MaxJobsPA", "MaxSubmitPA")
    ),
    FieldRule("Flags.requiresreservation", _always,
              "Jobs with QOS {name} run in reservations only (Flags=RequiresReservation).", is_unsafe=True),
    FieldRule("Flags.partitionminnodes", _always,
              "Jobs with QOS {name} have at least as many nodes as their partition says "
              "(Flags=PartitionMinNodes)."),
    FieldRule("GrpWall", _is_limited,
              "All fragments with QOS {name} together run for {value} (GrpWall), and then none starts.", "-1"),
)  # fmt: skip

_YOUNGEST = "Slurm preempts those that began last ({value}): trainings lose what they booted."
_UNKNOWN_ENDS = "the ends of holes that others make are not known."
OF_CONF = (
    FieldRule("SchedulerType", _is_not("sched/backfill"),
              "Slurm does not plan (SchedulerType={value}): the ends of holes are not known.", "sched/backfill"),
    FieldRule("MinJobAge", _below(60),
              "Slurm forgets a job {value} after its end (MinJobAge): how a fragment ended may be gone before it "
              "is seen.", "300"),
    FieldRule("MaxJobCount", lambda text: number(text) < 1000,
              "Slurm keeps {value} jobs at most (MaxJobCount), the held tasks of trainings among them: then "
              "nobody can submit anything.", "10000"),
    FieldRule("JobRequeue", _is("0"),
              "Tasks that are preempted do not run again unless their owner asked for --requeue (JobRequeue=0).",
              "1"),
    FieldRule("InactiveLimit", _below(60),
              "Slurm ends jobs whose srun does not answer for {value} (InactiveLimit).", "0"),
    FieldRule("UnkillableStepTimeout", _above(600),
              "A fragment that cannot be killed keeps its node for {value} (UnkillableStepTimeout).", "60"),
    FieldRule("SelectType", _is("select/linear"),
              "Slurm gives whole nodes only (SelectType={value}): no part of a node can be lent (lend.share).",
              "select/cons_tres", True, in_parts=True),
    FieldRule("ProctrackType", _is_not("proctrack/cgroup"),
              "What a fragment leaves running is not found (ProctrackType={value}): on part of a node it stays "
              "beside other jobs (lend.share).", "proctrack/cgroup", in_parts=True),
)  # fmt: skip

OF_WORDS = (
    FieldRule("PreemptParameters.youngest_first", _always, _YOUNGEST),
    FieldRule("SchedulerParameters.preempt_youngest_first", _always, _YOUNGEST),
    FieldRule("PreemptParameters.min_exempt_priority", _always,
              "Jobs of high priority are never preempted ({value}), and fragments may be such.", is_unsafe=True),
    FieldRule("PreemptParameters.reclaim_licenses", _always,
              "A job that waits for a licence may start by preemption alone ({value}): it is not seen coming, and "
              "nothing is given back before."),
    FieldRule("SchedulerParameters.defer", _always,
              "Jobs do not start when they are submitted (defer): holes are found later."),
    FieldRule("SchedulerParameters.bf_interval", _above(300),
              "Slurm plans so seldom ({value}, in seconds) that a job of the site's which missed its cycle waits "
              "for the next one.", "bf_interval=30"),
    FieldRule("SchedulerParameters.partition_job_depth", _below(10),
              "Slurm looks at few waiting jobs of each partition ({value}): jobs behind these do not start on "
              "nodes that are given back."),
    FieldRule("SchedulerParameters.default_queue_depth", _below(10),
              "Slurm looks at few waiting jobs when one ends ({value}): others wait for a backfill cycle."),
    FieldRule("SchedulerParameters.bf_max_job_test", _below(50),
              "Slurm plans few waiting jobs ({value}): " + _UNKNOWN_ENDS),
    FieldRule("SchedulerParameters.bf_max_job_part", _below(10),
              "Slurm plans few waiting jobs of each partition ({value}): " + _UNKNOWN_ENDS),
    FieldRule("SchedulerParameters.bf_window", _below(60),
              "Slurm plans less than an hour ahead ({value}, in minutes): the ends of holes are not known."),
    FieldRule("SchedulerParameters.sched_min_interval", _above(10_000_000),
              "Slurm's main scheduler runs seldom ({value}, in microseconds): nodes that are given back stay "
              "idle."),
)  # fmt: skip
