"""Meaning of Slurm's words for states of nodes and jobs, and for waiting. Pure; no other module knows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

from freetrain.core.job import JobState, LimitOf, SharedLimit, WaitsFor
from freetrain.core.node import NodeState

_MARKS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
_STATES = {
    "IDLE": NodeState.IDLE,
    **dict.fromkeys(("ALLOCATED", "MIXED"), NodeState.BUSY),
    **dict.fromkeys(("DOWN", "ERROR", "FAIL"), NodeState.DOWN),
}
# These flags say nothing against lending; with any other but PLANNED, known or new, a node is left alone.
_HARMLESS = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"})
_WANTED = frozenset(
    {"DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "POWER_DOWN", "REBOOT_REQUESTED", "REBOOT_ISSUED", "PLANNED"}
)
"""Flags that say that the node is wanted for something else."""
_NO_NEW_JOBS = frozenset(
    {"DRAIN", "FAIL", "NOT_RESPONDING", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWER_DOWN", "BLOCKED"}
)

# Reasons for which Slurm drains a node after a job. A prolog fails before it, which is no fault of the job's.
_NOT_CLEARED = ("Kill task failed", "Epilog error", "batch job complete failure")

_OWNERS_LIMIT = re.compile(
    r"Assoc|QOS|Max\w+Per(?:Account|User|Job|Node)|MaxJob|MaxNode|MaxMem|MaxCpu|PartitionNodeLimit|JobArrayTaskLimit|AccountNot|InvalidAccount"
)
_SHARED_LIMITS = (
    (re.compile(r"AssocGrp|Association(?:Job|Resource)Limit"), LimitOf.ACCOUNT),
    (re.compile(r"AssocMaxJobs"), LimitOf.USER),
    (re.compile(r"QOSGrp|QOS(?:Job|Resource)Limit"), LimitOf.QOS),
    (re.compile(r"QOSMax\w+PerUser"), LimitOf.QOS_AND_USER),
    (re.compile(r"(?:QOS)?Max\w+PerAccount"), LimitOf.QOS_AND_ACCOUNT),
)
# Limits of what has been used, or of what is submitted: the end of another job frees nothing of them.
_NOT_GIVEN_BACK = re.compile(r"(?<!Run)Minutes|Submit|Wall|Time")
_COUNTED = ("cpu", "mem", "node", "gres", "jobs")
_BASE_STATES = {
    **dict.fromkeys(("SIGNALING", "STOPPED", "RESIZING"), JobState.RUNNING),
    "STAGE_OUT": JobState.COMPLETING,
    **dict.fromkeys(("SPECIAL_EXIT", "RESV_DEL_HOLD"), JobState.PENDING),
}
"""Flags that Slurm shows in place of a job's base state, with the state that they imply."""
# Known, and nothing is concluded from them.
_OF_FEDERATIONS = frozenset({"REVOKED", "REQUEUE_FED"})

_OF_THE_JOB = (
    "Dependency", "DependencyNeverSatisfied", "Licenses", "Reservation", "ReservationDeleted", "InvalidQOS",
    "BurstBufferResources", "BurstBufferStageIn", "BurstBufferOperation", "DeadLine",
)  # fmt: skip
"""Reasons by which a job waits for something that no node can give it."""

_WAITS_FOR = {
    **dict.fromkeys(
        ("", "None", "Priority", "Resources", "Prolog", "ReqNodeNotAvail", "Reserved", "NodeDown"), WaitsFor.NODES
    ),
    **dict.fromkeys(("BeginTime", "Cleaning"), WaitsFor.TIME),
    **dict.fromkeys(_OF_THE_JOB, WaitsFor.ITSELF),
    "BadConstraints": WaitsFor.POSSIBILITY,
    **dict.fromkeys(("PartitionDown", "PartitionInactive", "SchedDefer", "FrontEndDown"), WaitsFor.QUEUE),
}


class FactsOfState(TypedDict):
    """Fields of :class:`freetrain.core.node.Node` that follow from the node's state."""

    state: NodeState
    state_text: str
    may_be_lent: bool
    is_planned: bool
    is_wanted: bool
    starts_jobs: bool
    was_not_cleared: bool


def facts_of_state(text: str, reason: str = "") -> FactsOfState:
    """Facts that follow from ``IDLE+DRAIN``, ``ALLOCATED*`` and the like, and from the reason that Slurm gives."""
    marks = set()
    while text and text[-1] in _MARKS:
        marks.add(_MARKS[text[-1]])
        text = text[:-1]
    base, *words = text.split("+")
    flags = marks.union(words)
    state = NodeState.DOWN if "NOT_RESPONDING" in flags else _STATES.get(base, NodeState.UNKNOWN)
    return FactsOfState(
        state=state,
        state_text="+".join([base, *sorted(flags - _HARMLESS)]),
        may_be_lent=not flags - _HARMLESS - {"PLANNED"},
        is_planned="PLANNED" in flags,
        is_wanted=bool(flags & _WANTED),
        starts_jobs=state in (NodeState.IDLE, NodeState.BUSY) and not flags & _NO_NEW_JOBS,
        was_not_cleared=reason.startswith(_NOT_CLEARED),
    )


def waits_for(reason: str) -> WaitsFor:
    """Kind of thing that a job waits for, from the reason that Slurm gives for its waiting."""
    if reason.startswith("JobHeld"):
        return WaitsFor.RELEASE
    if _OWNERS_LIMIT.search(reason):
        return WaitsFor.OWNERS_LIMIT
    word = reason.partition(",")[0]  # ReqNodeNotAvail, UnavailableNodes:n[1-3]
    # In sentences Slurm speaks of nodes: "Nodes required for job are DOWN, DRAINED or reserved for jobs in …".
    return WaitsFor.NODES if " " in word else _WAITS_FOR.get(word, WaitsFor.OTHER)


def shared_limit_of(reason: str) -> SharedLimit | None:
    """The limit of several jobs together that a job waits for by this reason, as ``AssocGrpCpuLimit``."""
    of = next((of for pattern, of in _SHARED_LIMITS if pattern.match(reason)), None)
    if of is None or _NOT_GIVEN_BACK.search(reason):
        return None
    # Time limits count in these, so that no amount of a resource is known to be enough.
    if "RunMinutes" in reason:
        return SharedLimit(of)
    return SharedLimit(of, next((counts for counts in _COUNTED if counts in reason.lower()), ""))


def job_state(text: str) -> JobState:
    """The state that Slurm names, ``CANCELLED by 1000`` included; UNKNOWN for one that a later Slurm invents."""
    word = _word_of(text)
    return JobState(word) if word in JobState.__members__ else _BASE_STATES.get(word, JobState.UNKNOWN)


def unknown_job_state(text: str) -> Sequence[str]:
    """Problem to report of a job's state that freetrain does not know; empty: it knows the state."""
    is_known = job_state(text) is not JobState.UNKNOWN or _word_of(text) in _OF_FEDERATIONS
    return () if is_known else (f"state {text[:40]!r} is not known",)


def _word_of(text: str) -> str:
    return text.split(" ", 1)[0].rstrip("+")
