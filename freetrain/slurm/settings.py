"""Slurm's own settings and an account's rights, as far as they matter to freetrain. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from freetrain.durations import parse_duration
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.parsing.hardware import default_memory_mb

_BACKFILL_INTERVAL_S = 30
_BACKFILL_RESOLUTION_S = 60
_BACKFILL_WINDOW_MIN = 1440
_BACKFILL_JOBS = 500


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Settings of slurm.conf that matter to freetrain.

    Attributes:
        preempt_type: as ``preempt/partition_prio``.
        preempt_mode: OFF, CANCEL, REQUEUE …
        backfill_interval_s: seconds from one plan of the waiting jobs to the next.
        backfill_resolution_s: seconds to which it rounds times when it plans.
        backfill_window_s: seconds that it plans ahead.
        backfill_most_jobs: number of waiting jobs that it looks at.
        slurm_user: the account that the controller runs as.
        exempt_s: seconds after its start in which no job is preempted.
        complete_wait_s: seconds in which no job starts while nodes that a job has left are cleared up.
        epilog: program that slurmctld runs at the end of each job (EpilogSlurmctld); empty: none.
        controller_parameters: as written (SlurmctldParameters).
        hides_jobs: whether users see only their own jobs.
        default_memory_mb: memory of a job that asks for none, per CPU or per node; 0: no limit.
        enforces: rules of accounting that Slurm enforces: associations, limits, qos, safe.
        priority_type: as ``priority/multifactor``.
        over_s: seconds that jobs may go on after their limit.
        kill_wait_s: seconds from SIGTERM to SIGKILL where a job is to end.
        suspend_s: seconds after which idle nodes are powered down; inf: never.
        suspend_not: nodes and partitions that are never powered down, as written.
        job_comp_type: as ``jobcomp/lua``; empty: none.
        conf_file: path of slurm.conf, as this machine's commands print it.
        task_plugins: plug-ins that set up tasks on nodes, as ``task/cgroup``.
        shares_out_memory: whether what one job has of a node's memory no other has (SelectTypeParameters).
    """

    cluster: str
    version: str
    preempt_type: str
    preempt_mode: str
    backfill_interval_s: float
    backfill_resolution_s: float
    slurm_user: str
    backfill_window_s: float = 60.0 * _BACKFILL_WINDOW_MIN
    backfill_most_jobs: int = _BACKFILL_JOBS
    exempt_s: float = 0.0
    complete_wait_s: float = 0.0
    epilog: str = ""
    preempt_parameters: str = ""
    controller_parameters: str = ""
    hides_jobs: bool = False
    default_memory_mb: int = 0
    has_accounting: bool = False
    enforces: frozenset[str] = frozenset()
    priority_type: str = "priority/basic"
    over_s: float = 0.0
    kill_wait_s: float = 30.0
    suspend_s: float = inf
    suspend_not: tuple[str, str] = ("", "")
    job_comp_type: str = ""
    job_submit_plugins: tuple[str, ...] = ()
    conf_file: str = ""
    task_plugins: frozenset[str] = frozenset()
    shares_out_memory: bool = True

    @property
    def charges(self) -> bool:
        """Whether what jobs use counts against their users: in priorities, or in limits."""
        counts = self.priority_type == "priority/multifactor" or bool(self.enforces & {"limits", "safe"})
        return self.has_accounting and counts


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of an account over the jobs of others.

    Attributes:
        admin_level: None, Operator or Administrator.
        coordinates: accounts whose coordinator it is.
    """

    admin_level: str
    coordinates: tuple[str, ...]

    @property
    def is_operator(self) -> bool:
        """Whether it may steer everybody's jobs."""
        return self.admin_level in ("Operator", "Administrator")

    @property
    def may_steer(self) -> bool:
        """Whether it may steer anybody's jobs."""
        return self.is_operator or bool(self.coordinates)


def parse_settings(text: str) -> SlurmSettings:
    """Settings that ``scontrol show config`` prints.

    Raises:
        SlurmUnclearError: the text is something else.
    """
    return settings_of(parse_conf(text))


def parse_conf(text: str) -> Mapping[str, str]:
    """The values of ``scontrol show config`` by their names.

    Raises:
        SlurmUnclearError: the text is something else.
    """
    values = {key: value.strip() for key, value in re.findall(r"^([\w\[\]]+)\s*= (.*)$", text, re.MULTILINE)}
    if "PreemptType" not in values:
        raise SlurmUnclearError("scontrol show config", f"it names no PreemptType ({text[:80]!r})")
    return values


def settings_of(values: Mapping[str, str]) -> SlurmSettings:
    """The settings that these values mean."""
    parameters = dict(re.findall(r"\b(bf_\w+)=(\d{1,18})\b", values.get("SchedulerParameters", "")))
    return SlurmSettings(
        cluster=values.get("ClusterName", ""),
        version=values.get("SLURM_VERSION", ""),
        preempt_type=_known(values.get("PreemptType", "")) or "preempt/none",
        preempt_mode=values.get("PreemptMode", "OFF"),
        backfill_interval_s=float(_whole(parameters, "bf_interval", _BACKFILL_INTERVAL_S)),
        backfill_resolution_s=float(_whole(parameters, "bf_resolution", _BACKFILL_RESOLUTION_S)),
        backfill_window_s=60.0 * _whole(parameters, "bf_window", _BACKFILL_WINDOW_MIN),
        backfill_most_jobs=_whole(parameters, "bf_max_job_test", _BACKFILL_JOBS),
        slurm_user=values.get("SlurmUser", "").partition("(")[0].strip(),
        exempt_s=_seconds(values.get("PreemptExemptTime", "")),
        complete_wait_s=_leading_number(values.get("CompleteWait", "0")),
        epilog=_known(values.get("EpilogSlurmctld", values.get("EpilogSlurmctld[0]", ""))),
        preempt_parameters=_known(values.get("PreemptParameters", "")),
        controller_parameters=_known(values.get("SlurmctldParameters", "")),
        hides_jobs="jobs" in values.get("PrivateData", "").strip().split(","),
        default_memory_mb=default_memory_mb(values),
        has_accounting=values.get("AccountingStorageType", "") == "accounting_storage/slurmdbd",
        enforces=frozenset(values.get("AccountingStorageEnforce", "").split(",")),
        priority_type=values.get("PriorityType", "priority/basic"),
        over_s=parse_over_time(values.get("OverTimeLimit", "")) or 0.0,
        job_comp_type=_known(values.get("JobCompType", "")),
        job_submit_plugins=tuple(_known(values.get("JobSubmitPlugins", "")).split(",")),
        conf_file=_known(values.get("SLURM_CONF", "")),
        task_plugins=frozenset(_known(values.get("TaskPlugin", "")).split(",")),
        shares_out_memory="MEMORY" in values.get("SelectTypeParameters", "CR_MEMORY").upper(),
        kill_wait_s=_leading_number(values.get("KillWait", "30")),
        suspend_s=_suspend_s(values),
        suspend_not=(_known(values.get("SuspendExcNodes", "")), _known(values.get("SuspendExcParts", ""))),
    )


def parse_controller_s(text: str) -> float | None:
    """The time of this answer on the controller, as ``scontrol show config`` prints it; None: it is missing."""
    match = re.match(r"Configuration data as of (\d{1,11})$", text, re.MULTILINE)
    return float(match[1]) if match else None


def clock_ahead_s(controller_s: float | None, asked_s: float, answered_s: float) -> float:
    """Seconds, at least, that this machine's clock is ahead of the controller's; negative: behind; 0: unknown."""
    if controller_s is None:
        return 0.0
    # Slurm's time is cut to a second, and it answered at some moment between the question and the end of its
    # answer.
    return max(0.0, asked_s - controller_s - 1.0) + min(0.0, answered_s - controller_s)


def _suspend_s(values: Mapping[str, str]) -> float:
    # Without SuspendProgram nothing is powered down, whatever SuspendTime says.
    word = (values.get("SuspendTime") or "NONE").split()[0]
    has_program = bool(_known(values.get("SuspendProgram", "")))
    return float(word) if word.isdecimal() and has_program else inf


def parse_over_time(text: str) -> float | None:
    """Seconds of an OverTimeLimit in minutes; None: it is not given here."""
    word = text.split()[0] if text.split() else "NONE"
    return 60.0 * float(word) if word.isdecimal() else inf if word == "UNLIMITED" else None


def _leading_number(text: str) -> float:
    """The number of ``30 sec``; 0 where there is none."""
    word = text.partition(" ")[0]
    return float(word) if word.isdecimal() else 0.0


def _whole(parameters: Mapping[str, str], name: str, default: int) -> int:
    # Slurm takes its default where 0 is written.
    return int(parameters.get(name, "0")) or default


def _known(value: str) -> str:
    return "" if value == "(null)" else value


def _seconds(duration: str) -> float:
    try:
        return parse_duration(duration)
    except ValueError:
        # NONE, or nothing at all.
        return 0.0


def parse_last_plan_s(text: str) -> float | None:
    """Time of Slurm's last plan of the waiting jobs, UTC epoch seconds, from ``sdiag``; None: it shows none."""
    _, _, backfill = text.partition("Backfilling stats")
    match = re.search(r"Last cycle when:.*\((\d{1,11})\)", backfill)
    return float(match[1]) if match and int(match[1]) > 0 else None


def parse_rights(text: str) -> Rights | None:
    """Rights that ``sacctmgr show user`` prints; None: it does not know the account."""
    line = next((line for line in text.splitlines() if "|" in line), None)
    if line is None:
        return None
    level, _, coordinates = line.partition("|")
    return Rights(level, tuple(filter(None, coordinates.strip("|").split(","))))
