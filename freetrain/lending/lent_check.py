"""Lent check: comparison of the ledger with Slurm's accounting of what was lent. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from freetrain.core.grouping import grouped
from freetrain.core.job import JobRun
from freetrain.lending.lent_time import Lending

# Slurm counts in whole seconds, and squeue and sacct sometimes differ by one.
_SAME_S = 2.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A job on which the ledger and Slurm's accounting differ.

    Attributes:
        node: its node by the ledger; empty: the ledger does not know this run.
        start_s: its beginning, UTC epoch seconds.
        ledger_s: seconds that it ran within the range, by the ledger; None: the ledger does not know this run.
        accounting_s: the same by accounting; None: accounting does not know this run.
    """

    job: str
    node: str
    start_s: float
    ledger_s: float | None
    accounting_s: float | None

    @property
    def what(self) -> str:
        """The difference as a sentence without its end."""
        if self.ledger_s is None:
            return "only accounting knows of it"
        if self.accounting_s is None:
            return "only the ledger knows of it"
        seconds = self.ledger_s - self.accounting_s
        return f"{abs(seconds):.0f} s {'more' if seconds > 0 else 'less'} in the ledger"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of the comparison: node-seconds within the range by both, and where they differ.

    Attributes:
        compared: number of lendings of a node that both know of.
        differences: the differences, in the order of time.
    """

    ledger_s: float
    accounting_s: float
    compared: int
    differences: tuple[Difference, ...]


def compare(
    lendings: Iterable[Lending], runs: Sequence[JobRun], from_s: float, until_s: float, now_s: float
) -> Check:
    """Compare the two, each clipped to the range; two runs of a job are distinguished by their starts."""

    def within_s(start_s: float, end_s: float | None) -> float:
        return max(0.0, min(now_s if end_s is None else end_s, until_s) - max(start_s, from_s))

    left = grouped((run.id, run) for run in runs if run.start_s is not None)
    ledger_s, compared, differences = 0.0, 0, []
    nodes_of: defaultdict[JobRun, set[str]] = defaultdict(set)
    for lending in lendings:
        lent_s = within_s(lending.start_s, lending.end_s)
        if not lent_s:
            continue
        ledger_s += lent_s
        # A job of several nodes is one run in accounting, and one lending for each node.
        same = _same(lending, [run for run in left[lending.job] if lending.node not in nodes_of[run]])
        if same is None:
            differences.append(Difference(lending.job, lending.node, lending.start_s, lent_s, None))
            continue
        nodes_of[same].add(lending.node)
        compared += 1
        known_s = within_s(same.start_s or 0.0, same.end_s)
        if abs(lent_s - known_s) > _SAME_S:
            differences.append(Difference(lending.job, lending.node, lending.start_s, lent_s, known_s))
    known = list(chain.from_iterable(left.values()))
    accounting_s = sum(within_s(run.start_s or 0.0, run.end_s) * max(1, len(nodes_of[run])) for run in known)
    for run in (run for run in known if not nodes_of[run]):
        # One that ended in the second of its start may be a second long in the ledger, or nothing.
        if known_s := within_s(run.start_s or 0.0, run.end_s):
            differences.append(Difference(run.id, "", run.start_s or 0.0, None, known_s))
    return Check(
        ledger_s, accounting_s, compared, tuple(sorted(differences, key=lambda difference: difference.start_s))
    )


def _same(lending: Lending, runs: Sequence[JobRun]) -> JobRun | None:
    return next((run for run in runs if abs((run.start_s or 0.0) - lending.start_s) <= _SAME_S), None)
