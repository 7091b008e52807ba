"""Findings: faults of Slurm, of settings or of this machine, each with the lines that mend it. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from freetrain.slurm.site.changes import SiteChange, in_typing_order, lines_of

_IN_CONF = "PartitionName={} … {}"
"""A field in the line of slurm.conf that a partition has there already."""
_PARTITION_UPDATE = re.compile(r"scontrol update PartitionName=(\S+) (.+)")


class LineKind(StrEnum):
    """Kind of a line that mends something: a command to run, or a line of slurm.conf or freetrain.toml."""

    COMMAND = "run"
    SLURM_CONF = "slurm.conf"
    FREETRAIN_TOML = "freetrain.toml"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of Slurm, of settings or of this machine, with the lines that mend it.

    Attributes:
        mend: the commands, or the lines of slurm.conf or freetrain.toml, that mend it, one below the other.
        is_unsafe: whether freetrain cannot lend so, or the site's jobs could wait for fragments; otherwise it only
            costs something.
        file: the file of settings that it lies in; None: in none of them more than in another.
        changes: changes of Slurm's or of ``[slurm]`` that have such lines; empty: the lines are only text.
    """

    what: str
    mend: str
    is_unsafe: bool = True
    file: Path | None = None
    changes: tuple[SiteChange, ...] = ()

    def without_lines(self) -> Finding:
        """The finding without lines and changes that mend it."""
        return replace(self, mend="", changes=())

    @property
    def mends(self) -> list[tuple[LineKind, str]]:
        """Each line with where it belongs; what a command changes in slurmctld belongs into slurm.conf, too."""
        lines = []
        for line in self.mend.splitlines():
            lines.append((_place(line), line))
            if updated := _PARTITION_UPDATE.fullmatch(line):
                lines.append((LineKind.SLURM_CONF, _IN_CONF.format(updated[1], _quoted(updated[2]))))
        return lines

    def before_there_is(self, partitions: Container[str]) -> Finding:
        """The finding where these partitions are still to be made: no command can change them yet."""
        lines = [
            _IN_CONF.format(updated[1], _quoted(updated[2]))
            if (updated := _PARTITION_UPDATE.fullmatch(line)) and updated[1] in partitions
            else line
            for line in self.mend.splitlines()
        ]
        return replace(self, mend="\n".join(lines))


def error_if(is_unsafe: bool, what: str, *mends: SiteChange | str) -> Finding:
    """A finding that these changes, or these lines, mend; a warning where it is not unsafe."""
    changes = in_typing_order(mend for mend in mends if isinstance(mend, SiteChange))
    lines = (mend for mend in mends if isinstance(mend, str))
    return Finding(what, "\n".join(filter(None, (*lines, lines_of(changes)))), is_unsafe, changes=changes)


def error(what: str, *mends: SiteChange | str) -> Finding:
    """A finding for which freetrain cannot lend, or the site's jobs could wait."""
    return error_if(True, what, *mends)


def warning(what: str, *mends: SiteChange | str) -> Finding:
    """A finding that only costs something."""
    return error_if(False, what, *mends)


def describe(findings: Iterable[Finding]) -> str:
    """The findings with what mends them, one below the other."""
    return "".join(
        f"\n- {finding.what}" + "".join(f"\n    {line}" for line in finding.mend.splitlines())
        for finding in findings
    )


def _quoted(change: str) -> str:
    key, _, value = change.partition("=")
    return f'{key}="{value}"' if "=" in value else change


def _place(line: str) -> LineKind:
    if line.startswith("[") or re.match(r"[a-z_.\"]+ = ", line):
        return LineKind.FREETRAIN_TOML
    return LineKind.SLURM_CONF if re.match(r"[A-Z]\w+=", line) else LineKind.COMMAND
