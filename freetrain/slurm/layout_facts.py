"""What Slurm says about the layout of a site: its settings, partitions and QOS. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from freetrain.core.node import Partition
from freetrain.durations import parse_duration
from freetrain.slurm.parsing import parse_partitions, partition_fields
from freetrain.slurm.queries import QOS_FIELDS, QOS_LIMITS
from freetrain.slurm.settings import SlurmSettings, parse_over_time

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """A partition, and who may run in it.

    Attributes:
        partition: its nodes, tier and preemption.
        state: UP, DOWN, DRAIN or INACTIVE.
        is_default: whether jobs that name no partition run in it.
        allow_accounts: accounts that may use it; None: all.
        deny_accounts: accounts that may not.
        allow_qos: QOS that jobs in it may have; None: all.
        deny_qos: QOS that they may not have.
        qos: the QOS whose limits count for all jobs in it; empty: none.
        billing: what is charged of each resource, by name in small letters; None: one for each CPU.
        min_nodes: fewest nodes of a job.
        max_nodes: most nodes of a job, inf without a limit.
        max_cpus: most CPUs that its jobs may have on one node, inf without a limit.
        over_s: how long jobs may go on after their limit; None: as the cluster says.
        root_only: whether only root may submit.
        reserved_only: whether its jobs must run in a reservation.
    """

    partition: Partition
    state: str = "UP"
    is_default: bool = False
    allow_accounts: Names | None = None
    deny_accounts: Names = frozenset()
    allow_qos: Names | None = None
    deny_qos: Names = frozenset()
    qos: str = ""
    billing: Mapping[str, float] | None = None
    min_nodes: int = 0
    max_nodes: float = inf
    max_cpus: float = inf
    over_s: float | None = None
    root_only: bool = False
    reserved_only: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.partition.name

    @property
    def admitted_qos(self) -> Names | None:
        """The QOS that jobs in it may have; None: every one that is not denied."""
        return None if self.allow_qos is None else self.allow_qos - self.deny_qos

    def admits_qos(self, qos: str) -> bool:
        """Whether jobs with this QOS may run in it."""
        return (self.allow_qos is None or qos in self.allow_qos) and qos not in self.deny_qos

    def without_qos(self, names: Names, known: Iterable[str]) -> str:
        """What makes it admit none of these, as ``DenyQos=…``; the others that are known it goes on to admit."""
        if self.allow_qos is None:
            return f"DenyQos={','.join(sorted(self.deny_qos | (names & frozenset(known))))}"
        return f"AllowQos={','.join(sorted(self.allow_qos - self.deny_qos - names))}"

    def admits_account(self, account: str) -> bool:
        """Whether jobs of this account may run in it."""
        return (self.allow_accounts is None or account in self.allow_accounts) and (
            account not in self.deny_accounts
        )


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service.

    Attributes:
        name: its name.
        preempts: QOS whose jobs its jobs may preempt.
        preempt_mode: CANCEL, REQUEUE …; empty: the cluster's.
        grace_s: how long a preempted job with it may go on.
        exempt_s: for how long after its start a job with it is not preempted; None: as the cluster says.
        group_limits: its limits on what all its jobs have together, as ``GrpTRES=node=8``.
    """

    name: str
    preempts: Names = frozenset()
    preempt_mode: str = ""
    grace_s: float = 0.0
    exempt_s: float | None = None
    group_limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmLayout:
    """All that decides whether the site's jobs may take the nodes of fragments.

    Attributes:
        settings: Slurm's own.
        partitions: by name.
        qos: by name; None: not asked for, or unknown.
        problem: why something of it is unknown or of before; empty: nothing is.
        clock_ahead_s: how far this machine's clock is ahead of the controller's, at least, in whole seconds; 0: no
            difference can be told.
    """

    settings: SlurmSettings
    partitions: Mapping[str, PartitionRules] = field(default_factory=dict)
    qos: Mapping[str, Qos] | None = None
    problem: str = ""
    clock_ahead_s: float = 0.0


def parse_partition_rules(text: str) -> tuple[dict[str, PartitionRules], list[str]]:
    """Partitions of ``scontrol -o show partition`` by name, and the lines that were not understood."""
    partitions, rejected = parse_partitions(text)
    rules = {}
    for fields in partition_fields(text):
        name = fields.get("PartitionName", "")
        if name in partitions:
            rules[name] = PartitionRules(
                partitions[name],
                fields["State"],
                fields.get("Default") == "YES",
                _names_or_all(fields.get("AllowAccounts", "ALL")),
                _names_or_all(fields.get("DenyAccounts", "")) or frozenset(),
                _names_or_all(fields.get("AllowQos", "ALL")),
                _names_or_all(fields.get("DenyQos", "")) or frozenset(),
                qos=fields.get("QoS", "").replace("N/A", ""),
                billing=parse_billing(fields.get("TRESBillingWeights", "")),
                min_nodes=int(_bound(fields.get("MinNodes", "0"))),
                max_nodes=_bound(fields.get("MaxNodes", "UNLIMITED")),
                max_cpus=_bound(fields.get("MaxCPUsPerNode", "UNLIMITED")),
                over_s=parse_over_time(fields.get("OverTimeLimit", "NONE")),
                root_only=fields.get("RootOnly") == "YES",
                reserved_only=fields.get("ReqResv") == "YES",
            )
    return rules, rejected


def parse_billing(text: str) -> Mapping[str, float] | None:
    """Weights such as ``CPU=1.0,Mem=0.25G,GRES/gpu=8``; None: none are given, and each CPU counts 1."""
    found = re.findall(r"([^=,]+)=([0-9.]+)", text)
    return {name.lower(): float(weight) for name, weight in found} if found else None


def _bound(text: str) -> float:
    return float(text) if text.isdigit() else inf


def parse_qos(text: str) -> tuple[dict[str, Qos], list[str]]:
    """QOS by name that ``sacctmgr -P show qos`` prints, and the lines that were not understood."""
    found, rejected = {}, []
    for line in filter(None, text.splitlines()):
        fields = line.split("|")
        try:
            name, preempts, mode, grace, exempt, *limits = fields
            found[name] = Qos(
                name,
                frozenset(filter(None, preempts.split(","))),
                "" if mode.lower() == "cluster" else mode.upper(),
                parse_duration(grace) if grace else 0.0,
                parse_duration(exempt) if exempt else None,
                tuple(f"{key}={limit}" for key, limit in zip(QOS_LIMITS, limits, strict=True) if limit),
            )
        except ValueError:
            rejected.append(f"QOS line not understood ({len(fields)} of {len(QOS_FIELDS)} fields): {line[:80]!r}")
    return found, rejected


def _names_or_all(text: str) -> Names | None:
    return None if text in ("ALL", "(null)", "") else frozenset(text.split(","))
