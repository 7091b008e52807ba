"""Whether a text is the whole of an answer of Slurm's. Pure.

An exit status of 0 does not say so: what is empty, cut short or an error text may come with it, and must not be
taken for a Slurm without jobs, reservations or nodes. Unknown is not gone.
"""

from __future__ import annotations

from freetrain.core.cluster import Snapshot
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.queries import SEPARATOR

_SHOWN = 80


def rows_below_header(text: str, mark: str, asked: str) -> str:
    """The records of a table of ``squeue``, whose header shows the mark even where the queue is empty.

    Args:
        text: what it printed.
        mark: what the header and each record begin with.
        asked: the command, for the error message.

    Raises:
        SlurmUnclearError: the header is missing, or the last line is cut short.
    """
    _, header, rest = text.partition(f"{mark}{SEPARATOR}")
    if not header:
        raise SlurmUnclearError(asked, f"it has no header ({_shown(text)})")
    _, end, records = rest.partition("\n")
    if not end or not text.endswith("\n"):
        raise SlurmUnclearError(asked, f"it is cut short ({_shown(text[-_SHOWN:])})")
    return records


def whole_lines(text: str, beginning: str, asked: str, none_there: str = "") -> tuple[str, list[str]]:
    """The lines of ``scontrol -o show``, and those that are something else.

    Args:
        text: what it printed.
        beginning: of each line.
        asked: the command, for the error message.
        none_there: what it prints where there is nothing to show; empty: there always is something.

    Raises:
        SlurmUnclearError: no line is as it should be, or the last one is cut short.
    """
    if none_there and text.strip() == none_there:
        return "", []
    lines = [line for line in text.splitlines() if line]
    stray = [f"{asked}: {_shown(line)}" for line in lines if not line.startswith(beginning)]
    if len(stray) == len(lines):
        raise SlurmUnclearError(asked, f"no line begins with {beginning} ({_shown(text)})")
    if not text.endswith("\n"):
        raise SlurmUnclearError(asked, f"it is cut short ({_shown(text[-_SHOWN:])})")
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
