"""Lines that an admin types, as changes of the model: each knows its line, and what Slurm makes of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.parsing.words import Row
from freetrain.slurm.site.facts import Site, names_of

NEW_QOS = {
    "Preempt": "", "PreemptMode": "cluster", "GraceTime": "00:00:00", "PreemptExemptTime": "", "Priority": "0",
    "UsageFactor": "1.000000", "Flags": "",
}  # fmt: skip
"""A QOS as ``sacctmgr add qos`` makes it."""

NEW_PARTITION = {
    "State": "UP", "Default": "NO", "PriorityTier": "1", "GraceTime": "0", "MaxTime": "UNLIMITED",
    "AllowQos": "ALL", "QoS": "N/A",
}  # fmt: skip
"""A partition as a line with nothing but its name and nodes makes it; its PreemptMode is the cluster's."""


class Target(StrEnum):
    """Kind of object that a change is made to."""

    CONF = "slurm.conf"
    PARTITION = "partition"
    QOS = "qos"
    ACCOUNT = "account"
    USER = "user"
    RESERVATION = "reservation"
    SETTINGS = "freetrain.toml"
    MACHINE = "machine"
    """This machine itself, of which the model knows nothing but its clock."""


# The order in which lines are typed: a QOS is there before a partition names it, and it and the PreemptMode of
# each partition are as they must be before preemption is switched on.
_ORDER = (Target.QOS, Target.ACCOUNT, Target.USER, Target.PARTITION, Target.CONF, Target.RESERVATION,
          Target.MACHINE, Target.SETTINGS)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SiteChange:
    """A change that an admin types as a line.

    Attributes:
        name: the partition's, QOS's, account's or reservation's; of a user ``user@account``.
        key: the field; empty: the object is made, or of a reservation deleted.
        value: value that it is set to, or that is added to or taken from it.
        sign: ``=``, ``+=`` or ``-=``.
        row: the fields of a partition that is made.
    """

    target: Target
    name: str
    key: str = ""
    value: str = ""
    sign: str = "="
    row: tuple[tuple[str, str], ...] = ()

    @property
    def line(self) -> str:
        """Line that an admin types."""
        setting = f"{self.key}{self.sign}{self.value}"
        match self.target:
            case Target.CONF:
                return setting
            case Target.PARTITION if self.row:
                return " ".join([f"PartitionName={self.name}", *(f"{key}={value}" for key, value in self.row)])
            case Target.PARTITION:
                return f"scontrol update PartitionName={self.name} {setting}"
            case Target.QOS | Target.ACCOUNT if not self.key:
                return f"sacctmgr -i add {self.target} {self.name}"
            case Target.QOS | Target.ACCOUNT:
                return f"sacctmgr -i modify {self.target} {self.name} set {setting}"
            case Target.USER:
                user, _, account = self.name.partition("@")
                return f"sacctmgr -i modify user {user} where account={account} set {setting}"
            case Target.RESERVATION:
                return f"scontrol delete ReservationName={self.name}"
            case Target.SETTINGS:
                return f'[slurm]\n{self.key} = "{self.value}"'
        return self.value

    def applied_to(self, site: Site) -> Site:
        """The site as Slurm shows it afterwards."""
        match self.target:
            case Target.CONF:
                return _with_setting(site, self.key, self.value)
            case Target.PARTITION:
                rows = site.partition_rows
                # There is one default at most: Slurm takes the mark from the other.
                if (self.key, self.value) == ("Default", "YES"):
                    rows = {name: {**row, "Default": "NO"} for name, row in rows.items()}
                return replace(site, partition_rows={**rows, self.name: self._partition(site)})
            case Target.QOS:
                known = site.qos_rows or {}
                row = _changed({"Name": self.name, **NEW_QOS, **known.get(self.name, {})}, self)
                return replace(site, qos_rows={**known, self.name: row})
            case Target.ACCOUNT | Target.USER:
                before = site.association_rows or ()
                after = tuple(_changed(row, self) if self._is_of(row) else row for row in before)
                return replace(site, association_rows=after)
            case Target.RESERVATION:
                left = tuple(reservation for reservation in site.reservations if reservation.name != self.name)
                return replace(site, reservations=left)
            case Target.MACHINE:
                return site.without_clock()
        return site

    def _partition(self, site: Site) -> Row:
        if self.row:
            mode = {"PreemptMode": site.conf.get("PreemptMode", "OFF")}
            return {"PartitionName": self.name, **NEW_PARTITION, **mode, **dict(self.row), _TYPED: ""}
        return _changed(site.partition_rows[self.name], self)

    def _is_of(self, row: Row) -> bool:
        user, _, account = self.name.partition("@")
        if self.target is Target.USER:
            return (row["User"], row["Account"]) == (user, account)
        return row["Account"] in names_of(self.name)


def apply(changes: Iterable[SiteChange], site: Site, queue: FragmentQueue) -> tuple[Site, FragmentQueue]:
    """The site, and where fragments run, after these lines have been typed."""
    for change in changes:
        site = change.applied_to(site)
        if change.target is Target.SETTINGS:
            queue = replace(queue, **{change.key: change.value})
    return site, queue


def in_typing_order(changes: Iterable[SiteChange]) -> tuple[SiteChange, ...]:
    """Each change once, in the order in which the lines are typed: what is made comes before what is changed."""

    def place(change: SiteChange) -> tuple[int, bool]:
        target = Target.CONF if change.row else change.target
        return _ORDER.index(target), bool(change.key)

    return tuple(sorted(dict.fromkeys(changes), key=place))


def lines_of(changes: Iterable[SiteChange]) -> str:
    """The lines of changes, one below the other; a table of freetrain.toml is opened once."""
    lines = list(in_typing_order(changes))
    text = "\n".join(change.line for change in lines)
    first, *more = text.split("[slurm]\n")
    return first + ("[slurm]\n" + "".join(more) if more else "")


# Changes by name, key and value, the last two of which are left out where the object itself is made or deleted.
conf = partial(SiteChange, Target.CONF, "")
partition = partial(SiteChange, Target.PARTITION)
qos = new_qos = partial(SiteChange, Target.QOS)
delete_reservation = partial(SiteChange, Target.RESERVATION)
setting = partial(SiteChange, Target.SETTINGS, "slurm")
"""Change of ``slurm.partition`` or ``slurm.qos`` of freetrain.toml."""


def new_partition(name: str, nodes: Iterable[str], **fields: str) -> SiteChange:
    """Change that makes a partition."""
    row = {"Nodes": fold_nodes(nodes) or "<all>", **fields, "State": "UP"}
    return SiteChange(Target.PARTITION, name, row=tuple(row.items()))


def qos_of_accounts(accounts: Iterable[str], name: str) -> SiteChange:
    """Change that lets accounts use a QOS."""
    return SiteChange(Target.ACCOUNT, ",".join(accounts), "QOS", name, "+=")


def unset_default_qos(account: str, user: str = "") -> SiteChange:
    """Change that gives jobs that name no QOS the one that they had before somebody set another."""
    if user:
        return SiteChange(Target.USER, f"{user}@{account}", "DefaultQOS", "-1")
    return SiteChange(Target.ACCOUNT, account, "DefaultQOS", "-1")


CLOCK_BY_NETWORK = SiteChange(Target.MACHINE, "", value="timedatectl set-ntp true")
"""Change that lets NTP set this machine's clock."""


def _with_setting(site: Site, key: str, value: str) -> Site:
    conf = {**site.conf, key: value}
    if key != "PreemptMode":
        return replace(site, conf=conf)
    # A partition's PreemptMode that equals the cluster's may be inherited, which Slurm does not show: then it
    # changes, too. Where it was not, this costs a line that is not needed.
    before = site.conf.get("PreemptMode", "OFF").upper()
    rows = {
        name: {**row, "PreemptMode": value}
        if row.get("PreemptMode", "OFF").upper() == before and _TYPED not in row
        else row
        for name, row in site.partition_rows.items()
    }
    return replace(site, conf=conf, partition_rows=rows)


# Fields that Slurm shows under another name than it takes them.
_SHOWN_AS = {(Target.PARTITION, "QOS"): "QoS", (Target.QOS, "MaxSubmitJobsPU"): "MaxSubmitPU"}
# Marks a row whose PreemptMode is its own, and not that of the cluster.
_TYPED = "PreemptMode is typed"
# Fields of accounting that are lists, to which ``+=`` adds and from which ``-=`` takes.
_LISTS = frozenset({"Preempt", "Flags", "QOS"})


def _changed(row: Row, change: SiteChange) -> Row:
    if not change.key:
        return row
    key = _SHOWN_AS.get((change.target, change.key), change.key)
    typed = {_TYPED: ""} if key == "PreemptMode" else {}
    return {**row, **typed, key: _value_after(row.get(key, ""), change, key)}


def _value_after(before: str, change: SiteChange, key: str) -> str:
    value = change.value
    if change.target is Target.PARTITION:
        return "UNLIMITED" if key.startswith("MaxMem") and value == "0" else value
    if key in _LISTS:
        old, new = names_of(before), names_of(value)
        return ",".join(sorted({"=": new, "+=": old | new, "-=": old - new}[change.sign]))
    if key == "DefaultQOS" and value == "-1":
        return ""
    return _limit_after(before, value) if key.startswith(("Grp", "Max", "Min")) else value


def _limit_after(before: str, value: str) -> str:
    """Limit after a change: -1 takes it away, and ``cpu=-1`` that of CPUs alone; other resources keep theirs."""
    if value == "-1":
        return ""
    if "=" not in value:
        return value
    amounts = dict(part.partition("=")[::2] for part in filter(None, before.split(",")))
    amounts |= dict(part.partition("=")[::2] for part in value.split(","))
    return ",".join(f"{name}={count}" for name, count in amounts.items() if count != "-1")
