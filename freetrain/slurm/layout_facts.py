"""What Slurm says about the layout of a site: its settings, partitions and QOS. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from freetrain.core.cluster import Partition
from freetrain.durations import parse_duration
from freetrain.slurm.commands import QOS_FIELDS
from freetrain.slurm.parsing import parse_partitions, partition_fields
from freetrain.slurm.settings import SlurmSettings

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
    """

    partition: Partition
    state: str = "UP"
    is_default: bool = False
    allow_accounts: Names | None = None
    deny_accounts: Names = frozenset()
    allow_qos: Names | None = None
    deny_qos: Names = frozenset()

    @property
    def name(self) -> str:
        """Its name."""
        return self.partition.name

    def admits_qos(self, qos: str) -> bool:
        """Whether jobs with this QOS may run in it."""
        return (self.allow_qos is None or qos in self.allow_qos) and qos not in self.deny_qos

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
    """

    name: str
    preempts: Names = frozenset()
    preempt_mode: str = ""
    grace_s: float = 0.0
    exempt_s: float | None = None


@dataclass(frozen=True, slots=True)
class SlurmLayout:
    """All that decides whether the site's jobs may take the nodes of fragments.

    Attributes:
        settings: Slurm's own.
        partitions: by name.
        qos: by name; None: not asked for, or unknown.
        problem: why something of it is unknown or of before; empty: nothing is.
    """

    settings: SlurmSettings
    partitions: Mapping[str, PartitionRules] = field(default_factory=dict)
    qos: Mapping[str, Qos] | None = None
    problem: str = ""


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
            )
    return rules, rejected


def parse_qos(text: str) -> tuple[dict[str, Qos], list[str]]:
    """QOS that ``sacctmgr -n -P show qos`` prints by name, and the lines that were not understood."""
    found, rejected = {}, []
    for line in filter(None, text.splitlines()):
        fields = line.split("|")
        try:
            name, preempts, mode, grace, exempt = fields
            found[name] = Qos(
                name,
                frozenset(filter(None, preempts.split(","))),
                "" if mode.lower() == "cluster" else mode.upper(),
                parse_duration(grace) if grace else 0.0,
                parse_duration(exempt) if exempt else None,
            )
        except ValueError:
            rejected.append(f"QOS line not understood ({len(fields)} of {len(QOS_FIELDS)} fields): {line[:80]!r}")
    return found, rejected


def _names_or_all(text: str) -> Names | None:
    return None if text in ("ALL", "(null)", "") else frozenset(text.split(","))
