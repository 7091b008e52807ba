"""Facts that Slurm shows of a site: its settings, partitions, QOS and associations, as rows and typed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf

from freetrain.core.node import Partition, Reservation
from freetrain.durations import parse_duration
from freetrain.slurm.parsing.hardware import parse_partition
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.queries import ASSOCIATION_FIELDS, QOS_FIELDS
from freetrain.slurm.settings import SlurmSettings, parse_over_time, settings_of

Names = frozenset[str]

BY_PARTITION, BY_QOS = "preempt/partition_prio", "preempt/qos"
USUAL_QOS = "normal"
"""The QOS of jobs whose association names no default."""


def names_of(text: str) -> Names:
    """The names of a list with commas."""
    return frozenset(filter(None, text.split(",")))


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Names that a partition allows, and denies.

    Attributes:
        kind: kind of the names, as in Slurm's fields: ``Accounts``, ``Qos``.
        allow: the only ones; None: all.
        deny: those that are not admitted in any case.
    """

    kind: str
    allow: Names | None
    deny: Names

    @property
    def admitted(self) -> Names | None:
        """The names that are admitted; None: all that are not denied."""
        return None if self.allow is None else self.allow - self.deny

    def admits(self, name: str) -> bool:
        """Whether a name is admitted."""
        return (self.allow is None or name in self.allow) and name not in self.deny

    def plus(self, *names: str) -> tuple[str, str]:
        """The field, and the value with which it admits these, too."""
        if self.allow is None:
            return f"Deny{self.kind}", ",".join(sorted(self.deny - {*names}))
        return f"Allow{self.kind}", ",".join(sorted(self.allow | {*names}))

    def minus(self, *names: str) -> tuple[str, str]:
        """The field, and the value with which it admits none of these."""
        if self.allow is None:
            return f"Deny{self.kind}", ",".join(sorted(self.deny | {*names}))
        return f"Allow{self.kind}", ",".join(sorted(self.allow - self.deny - {*names}))


@dataclass(frozen=True, slots=True)
class SitePartition:
    """A partition, with the accounts and the QOS whose jobs may run in it.

    Attributes:
        partition: its nodes, tier and preemption.
        row: all that Slurm shows of it.
        accounts: those that may use it.
        job_qos: QOS that jobs in it may have.
        billing: charge of each resource, by name in small letters; None: one for each CPU.
    """

    partition: Partition
    row: Row
    accounts: NameFilter
    job_qos: NameFilter
    billing: Mapping[str, float] | None

    @property
    def name(self) -> str:
        """Name of the partition."""
        return self.partition.name

    @property
    def is_default(self) -> bool:
        """Whether jobs that name no partition run in it."""
        return self.row.get("Default") == "YES"

    @property
    def qos(self) -> str:
        """The QOS whose limits count for all jobs in it; empty: none."""
        return self.row.get("QoS", "").replace("N/A", "")

    @property
    def cpus_of_a_node(self) -> float:
        """CPUs of one of its nodes, on the average; 0: Slurm does not show it."""
        total = self.row.get("TotalCPUs", "0")
        return float(total) / max(1, len(self.partition.nodes)) if total.isdecimal() else 0.0

    @property
    def over_s(self) -> float | None:
        """Seconds that jobs may go on after their limit; None: as the cluster's settings have it."""
        return parse_over_time(self.row.get("OverTimeLimit", "NONE"))


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service.

    Attributes:
        row: all that accounting shows of it.
        preempts: QOS whose jobs its jobs may preempt.
        preempt_mode: CANCEL, REQUEUE …; empty: the cluster's.
        grace_s: seconds that a preempted job with it may go on.
        exempt_s: seconds after its start in which a job with it is not preempted; None: as the cluster's settings.
        priority: the higher the sooner its jobs start.
        usage_factor: factor by which their usage counts against their users.
        flags: as DenyOnLimit.
        limits: its limits by their names, as GrpTRES, each as accounting shows it.
    """

    name: str
    row: Row
    preempts: Names
    preempt_mode: str
    grace_s: float
    exempt_s: float | None
    priority: int
    usage_factor: float
    flags: Names
    limits: Mapping[str, str]

    def named_limits(self, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        """Limits whose names begin with a prefix, as ``GrpTRES=node=8``."""
        return tuple(f"{key}={limit}" for key, limit in self.limits.items() if key.startswith(prefixes))


@dataclass(frozen=True, eq=False, slots=True)
class Association:
    """An account, or a user in it.

    Attributes:
        user: the user's; empty: this is the account itself.
        parent: the account above an account; empty: there is none.
        default_qos: the QOS of jobs that name none; empty: the cluster's.
        qos: those that jobs may have.
        limits: by their names, each as accounting shows it.
    """

    account: str
    user: str
    parent: str
    default_qos: str
    qos: Names
    limits: Mapping[str, str]

    def __str__(self) -> str:
        """Name of the association in sentences."""
        return f"user {self.user} in account {self.account}" if self.user else f"account {self.account}"

    @property
    def usual_qos(self) -> str:
        """The QOS of jobs that name none."""
        return self.default_qos or USUAL_QOS


@dataclass(frozen=True)
class Site:
    """Facts that decide whether fragments harm the site's jobs, and whether they can start.

    Attributes:
        qos_rows: QOS by name; None: not asked for, or unknown.
        association_rows: accounts and users; None: not asked for, or unknown.
        reservations: that run or will.
        gpu_nodes: the nodes that have GPUs.
        problem: reason why something of it is unknown or out of date; empty: nothing is.
        clock_ahead_s: whole seconds that this machine's clock is ahead of the controller's, at least; negative:
            behind; 0: no difference can be seen.
    """

    conf: Row
    partition_rows: Mapping[str, Row] = field(default_factory=dict)
    qos_rows: Mapping[str, Row] | None = None
    association_rows: tuple[Row, ...] | None = None
    reservations: tuple[Reservation, ...] = ()
    gpu_nodes: Names = frozenset()
    problem: str = ""
    clock_ahead_s: float = 0.0

    @cached_property
    def settings(self) -> SlurmSettings:
        """Slurm's settings."""
        return settings_of(self.conf)

    @cached_property
    def partitions(self) -> Mapping[str, SitePartition]:
        """Partitions by name."""
        return {
            name: SitePartition(
                parse_partition(row),
                row,
                _filter_of(row, "Accounts"),
                _filter_of(row, "Qos"),
                parse_billing(row.get("TRESBillingWeights", "")),
            )
            for name, row in self.partition_rows.items()
        }

    @cached_property
    def qos(self) -> Mapping[str, Qos]:
        """QOS by name; none where they are unknown."""
        return {name: _qos_of(row) for name, row in (self.qos_rows or {}).items()}

    @cached_property
    def associations(self) -> tuple[Association, ...]:
        """Accounts and users; none where they are unknown."""
        return tuple(map(_association_of, self.association_rows or ()))

    @cached_property
    def accounts(self) -> tuple[Association, ...]:
        """The accounts themselves."""
        return tuple(association for association in self.associations if not association.user)

    @cached_property
    def members(self) -> tuple[Association, ...]:
        """Users, each in an account of theirs."""
        return tuple(association for association in self.associations if association.user)

    @cached_property
    def usual_qos(self) -> Names:
        """The QOS that some jobs have without asking for one."""
        return frozenset({USUAL_QOS, *(association.usual_qos for association in self.associations)})

    def qos_among(self, names: Iterable[str]) -> list[Qos]:
        """The QOS with these names, as far as they exist, sorted by name."""
        return [self.qos[name] for name in sorted(set(names) & self.qos.keys())]

    @property
    def nodes_of(self) -> Mapping[str, Partition]:
        """Partitions by name, as the rest of freetrain knows them."""
        return {name: partition.partition for name, partition in self.partitions.items()}

    @property
    def enforces_limits(self) -> bool:
        """Whether accounting keeps jobs within their limits."""
        return self.settings.has_accounting and bool(self.settings.enforces & {"limits", "safe"})

    def accounts_above(self, account: str) -> Iterator[str]:
        """The account itself and those above it, the nearest first."""
        # The rows are texts: parents that go round in a circle must not hang a look.
        seen: set[str] = set()
        while account and account not in seen:
            seen.add(account)
            yield account
            account = self._parents.get(account, "")

    @cached_property
    def limited_above(self) -> Callable[[str], Names]:
        """Function of an account: itself and those above it, where they have limits; itself alone if none has."""
        limited = {account.account for account in self.accounts if account.limits}
        return cache(lambda name: frozenset(limited.intersection(self.accounts_above(name)) or {name} - {""}))

    @cached_property
    def _parents(self) -> Mapping[str, str]:
        return {account.account: account.parent for account in self.accounts}

    def without_clock(self) -> Site:
        """The site without a difference of clocks."""
        return replace(self, clock_ahead_s=0.0)


def parse_qos(text: str) -> tuple[dict[str, Row], list[str]]:
    """QOS of ``ASK_QOS`` by name, and the lines that were not understood."""
    rows, rejected = _rows(text, QOS_FIELDS, "QOS", _qos_of)
    return {row["Name"]: row for row in rows}, rejected


def parse_associations(text: str) -> tuple[tuple[Row, ...], list[str]]:
    """Associations of ``ask_associations``, and the lines that were not understood."""
    rows, rejected = _rows(text, ASSOCIATION_FIELDS, "association", _association_of)
    return tuple(rows), rejected


def parse_names(text: str) -> Names:
    """The names that sacctmgr prints, one in a line."""
    return frozenset(filter(None, (line.strip("| ") for line in text.splitlines())))


def parse_billing(text: str) -> Mapping[str, float] | None:
    """Weights such as ``CPU=1.0,Mem=0.25G,GRES/gpu=8``; None: none are given, and each CPU counts 1."""
    found = re.findall(r"([^=,]+)=([0-9]+(?:\.[0-9]+)?)", text)
    return {name.lower(): float(weight) for name, weight in found} if found else None


def _rows(
    text: str, fields: tuple[str, ...], kind: str, check: Callable[[Row], object]
) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    rejected = []
    for line in filter(None, text.splitlines()):
        try:
            row = dict(zip(fields, line.split("|"), strict=True))
            check(row)
        except ValueError:
            rejected.append(f"{kind} line not understood ({len(fields)} fields are expected): {line[:80]!r}")
        else:
            rows.append(row)
    return rows, rejected


def _filter_of(row: Row, kind: str) -> NameFilter:
    allowed, denied = (row.get(f"{verb}{kind}", "").replace("(null)", "") for verb in ("Allow", "Deny"))
    return NameFilter(kind, None if allowed in ("ALL", "") else names_of(allowed), names_of(denied))


def _qos_of(row: Row) -> Qos:
    mode, grace, exempt = row["PreemptMode"], row["GraceTime"], row["PreemptExemptTime"]
    return Qos(
        row["Name"],
        row,
        names_of(row["Preempt"]),
        "" if mode.lower() == "cluster" else mode.upper(),
        parse_duration(grace) if grace else 0.0,
        parse_duration(exempt) if exempt else None,
        int(row["Priority"] or 0),
        float(row["UsageFactor"] or 1.0),
        names_of(row["Flags"]),
        _limits(row),
    )


def _association_of(row: Row) -> Association:
    account, user, parent, default = row["Account"], row["User"], row["ParentName"], row["DefaultQOS"]
    return Association(account, user, parent, default, names_of(row["QOS"]), _limits(row))


def _limits(row: Row) -> dict[str, str]:
    for name in ("GrpWall", "MaxWall"):
        # Read once here, so that a line with a limit that is not a duration counts as not understood.
        parse_duration(row.get(name) or "0")
    return {key: value for key, value in row.items() if key.startswith(("Grp", "Max", "Min")) and value}


def amounts_of(limit: str) -> Mapping[str, float]:
    """Amount that a limit such as ``cpu=4,mem=16G`` allows of each resource; inf: not a number."""
    return {name: _number(count) for name, has_name, count in (part.rpartition("=") for part in limit.split(","))}


def _number(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", text)
    return float(match[1]) * 1024 ** " KMGTP".index(match[2] or " ") if match else inf


def pools(partitions: Iterable[SitePartition]) -> Names:
    """All nodes of these partitions."""
    return frozenset[str]().union(*(partition.partition.nodes for partition in partitions))
