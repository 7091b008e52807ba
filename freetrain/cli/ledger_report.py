"""What ``freetrain ledger --report`` writes: the books of a range as a page."""

from __future__ import annotations

import socket
from pathlib import Path

from freetrain import __version__
from freetrain.cli.ledger_rows import Books, Key, course_of, entries_of
from freetrain.cli.output import command_line
from freetrain.config import Config
from freetrain.replay.report.ledger_page import LedgerReport, write_ledger

_MOST_DAYS = 93
"""A longer range is shown by month."""
_DAY_S = 86400.0


def write_report_of(books: Books, config: Config, path: Path) -> None:
    """Write the page.

    Raises:
        StateError: the file cannot be written.
    """
    step = Key.DAY if books.until_s - books.from_s <= _MOST_DAYS * _DAY_S else Key.MONTH
    kept_since_s = books.now_s - config.state.keep
    report = LedgerReport(
        title=f"{socket.gethostname()}, partition {config.slurm.partition}",
        from_s=books.from_s,
        until_s=books.until_s,
        is_over=books.until_s < books.now_s,
        course=course_of(books, step),
        accounts=entries_of(books, (Key.ACCOUNT,)),
        users=entries_of(books, (Key.ACCOUNT, Key.USER)),
        harms=books.harms,
        delays_since_s=kept_since_s if kept_since_s > books.from_s else None,
        prices=config.prices,
        version=__version__,
        command=command_line(),
    )
    write_ledger(path, report)
