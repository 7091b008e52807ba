"""Checks that a text is the whole of an answer of Slurm's. Pure.

An exit status of 0 does not show that: an empty text, one that is cut short or an error may come with it, and must
not be taken for a Slurm without jobs, reservations or nodes. Unknown is not gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from freetrain.core.cluster import Snapshot
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.queries import SEPARATOR

SETTINGS_READ = (
    "AccountingStorageEnforce", "AccountingStorageType", "ClusterName", "CompleteWait", "JobCompType",
    "JobSubmitPlugins", "OverTimeLimit", "PreemptExemptTime", "PreemptMode", "PreemptType", "PriorityType",
    "PrivateData", "ProctrackType", "SLURM_CONF", "SLURM_VERSION", "SchedulerParameters", "SchedulerType",
    "SlurmUser", "SlurmctldParameters", "SuspendExcNodes", "SuspendExcParts", "SuspendProgram", "SuspendTime",
    "TaskPlugin",
)  # fmt: skip
"""Settings that freetrain reads and every Slurm from 22.05 to 26.05 prints, whatever their values are."""

_SETTING = re.compile(r"^(\w+) *= ", re.MULTILINE)
_CONTROLLER = re.compile(r"^Slurmctld\(\S+\) at .* (?:is|are) \S+\n", re.MULTILINE)
_AFTER_BACKFILL = re.compile(r"^Backfilling stats\n(?s:.*)^Remote Procedure Call", re.MULTILINE)
_SHOWN = 80
_MOST_NAMED = 5


def whole_answer(command: Command, text: str) -> str:
    """The answer to a question, without the header of a table; what an order prints, as it is.

    How the end of an answer is known:

    - ``scontrol show config``: the last lines show whether the controllers are up; above them are all settings
      that freetrain reads.
    - ``sdiag``: other statistics follow those of the backfill scheduler.
    - Tables of squeue, sacct and sacctmgr: a header shows that there is an answer, even where the table is empty,
      and a line break ends the last row. Nothing shows which row is the last: a table that is cut exactly between
      two rows looks like a shorter table.
    - All other ``scontrol show``, and the number that sbatch prints: a line break ends them.

    Raises:
        SlurmUnclearError: this is not an answer, or not the whole of it.
    """
    match command:
        case ("scontrol", "show", "config"):
            _require_all_settings(text)
        case ("sdiag", *_) if not _AFTER_BACKFILL.search(text):
            raise _cut_short("sdiag", text)
        case ("squeue" | "sacct" | "sacctmgr", *_) if (form := _table_form(command)) is not None:
            return _rows_below_header(text, form, command[0])
        case ("scontrol", *_, "show", _) | ("scontrol", *_, "show", "job", _) | ("sbatch", *_) if (
            text and not text.endswith("\n")
        ):
            raise _cut_short(command[0] if command[0] == "sbatch" else " ".join(command), text)
    return text


@dataclass(frozen=True, slots=True)
class _TableForm:
    """Form of a table's header.

    Attributes:
        first: title of the first column, in small letters; empty: any.
    """

    separator: str
    columns: int
    first: str

    def is_header(self, line: str) -> bool:
        """Whether this line is such a header; Slurm shortens some names, as AdminLevel to Admin."""
        title, *others = line.split(self.separator)
        begins = not self.first or (title != "" and self.first.startswith(title.casefold()))
        return begins and len(others) + 1 == self.columns


def _table_form(command: Command) -> _TableForm | None:
    """The form of the table that a command asks for; None: it asks for no header, or for an unknown table."""
    words = dict(pairwise(command))
    formats = (word.removeprefix("format=") for word in command if word.startswith("format="))
    columns = words.get("-o") or words.get("-O") or next(formats, "")
    if not columns or {"-n", "-h"} & words.keys():
        return None
    if command[0] != "squeue":
        return _TableForm("|", columns.count(",") + 1, columns.partition(",")[0].casefold())
    mark = columns.partition(SEPARATOR)[0] if "-o" in words and not columns.startswith("%") else ""
    return _TableForm(SEPARATOR, columns.count(SEPARATOR) + 1, mark.casefold()) if SEPARATOR in columns else None


def _rows_below_header(text: str, form: _TableForm, asked: str) -> str:
    # Lines above the header may come from a site's wrapper of the command.
    lines = text.split("\n")
    header = next((number for number, line in enumerate(lines) if form.is_header(line)), None)
    if header is None:
        raise SlurmUnclearError(asked, f"it has no header ({_shown(text)})")
    if lines[-1]:
        raise _cut_short(asked, text)
    return "\n".join(lines[header + 1 :])


def _require_all_settings(text: str) -> None:
    asked = "scontrol show config"
    named = {match[1] for match in _SETTING.finditer(text)}
    if missing := [name for name in SETTINGS_READ if name not in named]:
        raise SlurmUnclearError(asked, f"it names no {', '.join(missing[:_MOST_NAMED])} ({_shown(text)})")
    if not _CONTROLLER.search(text):
        raise _cut_short(asked, text)


def _cut_short(asked: str, text: str) -> SlurmUnclearError:
    return SlurmUnclearError(asked, f"it is cut short ({_shown(text[-_SHOWN:])})")


def whole_lines(text: str, beginning: str, asked: str, none_there: str = "") -> tuple[str, list[str]]:
    """The lines of ``scontrol -o show``, and those that are something else.

    Where there is nothing to show, it prints ``none_there``; empty: there always is something.

    Raises:
        SlurmUnclearError: no line is as it should be.
    """
    if none_there and text.strip() == none_there:
        return "", []
    lines = [line for line in text.splitlines() if line]
    stray = [f"{asked}: {_shown(line)}" for line in lines if not line.startswith(beginning)]
    if len(stray) == len(lines):
        raise SlurmUnclearError(asked, f"no line begins with {beginning} ({_shown(text)})")
    return text, stray


def check_not_empty(snapshot: Snapshot) -> None:
    """Refuse an answer without any node or partition: every Slurm has some.

    Raises:
        SlurmUnclearError: none were understood.
    """
    for what, there in (("nodes", snapshot.nodes), ("partition", snapshot.partitions)):
        if not there:
            first = f"; first {snapshot.rejected[0]}" if snapshot.rejected else ""
            raise SlurmUnclearError(f"scontrol show {what}", f"nothing of it makes sense{first}")


def _shown(text: str) -> str:
    return f"{text[:_SHOWN]!r}" if text.strip() else "it is empty"
