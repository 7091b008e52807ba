"""What came of the checks, as a table and as an exit status: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class NotPossibleError(Exception):
    """This cannot be tried here; the text says why."""


class Verdict(StrEnum):
    """What came of one check."""

    WELL = "well"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED OUT"
    NOT_POSSIBLE = "not possible"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the table.

    Attributes:
        check: its name.
        verdict: what came of it.
        detail: figures, or why.
        elapsed_s: how long it took.
    """

    check: str
    verdict: Verdict
    detail: str
    elapsed_s: float


NO_DEVICE_STATUS = 2
FAILED_STATUS = 1


def status_of(outcomes: Sequence[Outcome]) -> int:
    """0: all that was possible went well; 1: something did not; 2: nothing was possible."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    if verdicts[Verdict.FAILED] or verdicts[Verdict.TIMED_OUT]:
        return FAILED_STATUS
    return 0 if verdicts[Verdict.WELL] else NO_DEVICE_STATUS


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each check."""
    rows = [("check", "", "s", "")]
    rows += [(one.check, str(one.verdict), f"{one.elapsed_s:.1f}", one.detail) for one in outcomes]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    lines = [
        f"{name:{widths[0]}}  {verdict:{widths[1]}}  {elapsed:>{widths[2]}}  {detail}".rstrip()
        for name, verdict, elapsed, detail in rows
    ]
    return "\n".join(lines)


def summary(outcomes: Sequence[Outcome]) -> str:
    """In a sentence."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict if verdicts[verdict])
