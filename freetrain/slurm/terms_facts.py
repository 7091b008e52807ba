"""What accounting says about the terms of jobs: limits and charges of QOS, names of accounts and users. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.slurm.commands import QOS_TERM_FIELDS


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
