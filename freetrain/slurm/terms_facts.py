"""What accounting says about the terms of jobs: limits and charges of QOS, names of accounts and users. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.slurm.commands import ASSOCIATION_FIELDS, QOS_TERM_FIELDS


@dataclass(frozen=True, slots=True)
class QosTerms:
    """What a QOS allows its jobs, and what they are charged.

    Attributes:
        name: its name.
        usage_factor: what their usage is multiplied by before it counts against their users.
        fences: its limits on what runs at once, as ``GrpTRES=node=8``.
    """

    name: str
    usage_factor: float = 1.0
    fences: tuple[str, ...] = ()


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
            names = QOS_TERM_FIELDS[2:]
            fences = tuple(f"{key}={limit}" for key, limit in zip(names, limits, strict=True) if limit)
            found[name] = QosTerms(name, float(factor or 1.0), fences)
        except ValueError:
            rejected.append(f"QOS line not understood: {line[:80]!r}")
    return found, rejected


def parse_names(text: str) -> frozenset[str]:
    """The names that sacctmgr prints, one in a line."""
    return frozenset(filter(None, (line.strip("| ") for line in text.splitlines())))
