"""``freetrain ledger --check``: what Slurm's accounting tells differently."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import click

from freetrain.cli.ledger_rows import Books
from freetrain.cli.listing import Shape
from freetrain.core.job import JobRun
from freetrain.daemon.reports.standing import Standing
from freetrain.errors import ExitCode, FreetrainError
from freetrain.lending.lent_check import Check, Difference, compare
from freetrain.showing.words import NOTHING, show_time
from freetrain.slurm.gateway import Gateway

_FORMAT = "freetrain-ledger-check/1"
_COLUMNS = ("JOB", "NODE", "STARTED", "LEDGER", "ACCOUNTING", "WHAT")
_AT_ONCE = 200
"""So many jobs are named in one question to accounting."""


def check_listing(books: Books, gateway: Gateway, standing: Standing, shape: Shape) -> bool:
    """Print what the two tell differently; whether there is anything.

    Raises:
        FreetrainError: there is no accounting, or it does not answer.
    """
    if not gateway.site(inf, 0).settings.has_accounting:
        raise FreetrainError(
            "Slurm keeps no accounting here (AccountingStorageType), so there is nothing to check against.",
            exit_code=ExitCode.CONFIGURATION,
        )
    runs = _runs_of(books, gateway)
    check = compare(books.lendings, runs, books.from_s, books.until_s, books.now_s)
    shape.print(
        _document(check, books, standing), _COLUMNS, map(_cells, check.differences), ("LEDGER", "ACCOUNTING")
    )
    if not shape.as_json:
        click.echo(_summary(check), err=shape.is_for_scripts)
    return bool(check.differences)


def _runs_of(books: Books, gateway: Gateway) -> Sequence[JobRun]:
    """What accounting knows of the jobs that were lent nodes, whole arrays of them."""
    reaching = [lending for lending in books.lendings if lending.end_s > books.from_s]
    arrays = sorted({row.job.partition("_")[0] for row in reaching})
    groups = (arrays[first : first + _AT_ONCE] for first in range(0, len(arrays), _AT_ONCE))
    return [run for group in groups for run in gateway.runs(group)]


def _summary(check: Check) -> str:
    hours = f"{check.ledger_s / 3600:.2f} node-hours in the ledger, {check.accounting_s / 3600:.2f} in accounting"
    one_sided = sum(None in (difference.ledger_s, difference.accounting_s) for difference in check.differences)
    differ, times = len(check.differences), check.compared + one_sided
    verb = "differ" if differ > 1 else "differs"
    return f"{hours}: {differ or 'none'} of {times} times that a node was lent {verb}."


def _cells(one: Difference) -> tuple[str, ...]:
    return (one.job, one.node or NOTHING, show_time(one.start_s), _s(one.ledger_s), _s(one.accounting_s), one.what)


def _s(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.0f}"


def _document(check: Check, books: Books, standing: Standing) -> dict[str, object]:
    return {
        "format": _FORMAT,
        "daemon": standing.document(),
        "from": books.from_s,
        "until": books.until_s,
        "compared": check.compared,
        "ledger_node_hours": check.ledger_s / 3600,
        "accounting_node_hours": check.accounting_s / 3600,
        "differences": [
            {
                "job": difference.job,
                "node": difference.node or None,
                "started": difference.start_s,
                "ledger_s": difference.ledger_s,
                "accounting_s": difference.accounting_s,
            }
            for difference in check.differences
        ],
    }
