"""What accounting says about the terms of jobs: limits and charges of QOS, names of accounts and users. Pure.

Beside what Slurm says of its layout these are the terms on which fragments run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.layout_facts import PartitionRules, SlurmLayout
from freetrain.slurm.queries import ASSOCIATION_FIELDS, QOS_TERM_FIELDS, SUBMIT_LIMITS


@dataclass(frozen=True, slots=True)
class QosTerms:
    """What a QOS allows its jobs, and what they are charged.

    Attributes:
        name: its name.
        usage_factor: what their usage is multiplied by before it counts against their users.
        fences: its limits on what runs at once, as ``GrpTRES=node=8``.
        submit_fences: its limits on what waits and runs, as ``MaxSubmitPU=1000``.
    """

    name: str
    usage_factor: float = 1.0
    fences: tuple[str, ...] = ()
    submit_fences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or a user in it.

    Attributes:
        account: its name.
        user: the user's; empty: this is the account itself.
        default_qos: the QOS of jobs that name none; empty: the cluster's.
        qos: those that jobs may have.
    """

    account: str
    user: str
    default_qos: str
    qos: frozenset[str]


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


def parse_associations(text: str) -> tuple[list[Association], list[str]]:
    """Those of ``ask_associations``, and the lines that were not understood."""
    found, rejected = [], []
    for line in filter(None, text.splitlines()):
        fields = line.split("|")
        if len(fields) == len(ASSOCIATION_FIELDS):
            account, user, default, names = fields
            found.append(Association(account, user, default, frozenset(filter(None, names.split(",")))))
        else:
            rejected.append(f"association line not understood: {line[:80]!r}")
    return found, rejected


def parse_qos_terms(text: str) -> tuple[dict[str, QosTerms], list[str]]:
    """QOS of ``ask_qos_terms`` by name, and the lines that were not understood."""
    found, rejected = {}, []
    for line in filter(None, text.splitlines()):
        fields = line.split("|")
        try:
            name, factor, *limits = fields
            given = {key: limit for key, limit in zip(QOS_TERM_FIELDS[2:], limits, strict=True) if limit}
            fences = tuple(f"{key}={limit}" for key, limit in given.items() if key not in SUBMIT_LIMITS)
            of_submissions = tuple(f"{key}={given[key]}" for key in SUBMIT_LIMITS if key in given)
            found[name] = QosTerms(name, float(factor or 1.0), fences, of_submissions)
        except ValueError:
            rejected.append(f"QOS line not understood: {line[:80]!r}")
    return found, rejected


def parse_names(text: str) -> frozenset[str]:
    """The names that sacctmgr prints, one in a line."""
    return frozenset(filter(None, (line.strip("| ") for line in text.splitlines())))
