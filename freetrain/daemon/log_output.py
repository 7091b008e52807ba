"""Destination of the daemon's log and form of its lines; systemd hands standard error to the journal."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TypeVar

from freetrain.config import Log

_StateT = TypeVar("_StateT")

_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
# Packages whose info is about themselves.
_CHATTY = {"alembic": "warning", "apscheduler": "error"}


def start_logging(wanted: Log) -> None:
    """Log to standard error, with priorities where that is the journal."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(wanted, in_journal="JOURNAL_STREAM" in os.environ))
    logging.basicConfig(handlers=[handler])
    set_levels(wanted, Log())


def set_levels(wanted: Log, before: Log) -> None:
    """Let each logger say as much as is wanted; those named only before follow the others again."""
    for name in before.levels:
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in {"": wanted.level, **_CHATTY, **wanted.levels}.items():
        logging.getLogger(name).setLevel(level.upper())


def formatter(wanted: Log, in_journal: bool) -> logging.Formatter:
    """Formatter of log records; the journal has the time of each line by itself."""
    if wanted.format == "json":
        lines: logging.Formatter = _JsonFormatter()
    else:
        lines = logging.Formatter("%(message)s" if in_journal else "%(asctime)s %(message)s")
    return _JournalFormatter(lines) if in_journal else lines


class Problems:
    """Problems that exist just now: each is logged when it begins, or becomes another one, and not again."""

    def __init__(self) -> None:
        self._now: dict[str, object] = {}
        self._among: dict[str, Collection[object]] = {}

    def is_new(self, where: str, problem: object = True) -> bool:
        """Whether this is wrong there, and was not; where the problem is empty nothing is wrong any more."""
        return self.has_changed(where, problem) and bool(problem)

    def has_changed(self, where: str, problem: object) -> bool:
        """Whether something else is wrong there than before; where the problem is empty, nothing any more."""
        before, self._now[where] = self._now.get(where), problem
        return (before or None) != (problem or None)

    def exists(self, where: str) -> bool:
        """Whether anything is wrong there."""
        return bool(self._now.get(where))

    def new_among(self, where: str, problems: Collection[_StateT]) -> list[_StateT]:
        """Problems of all those there that were not there before."""
        before, self._among[where] = self._among.get(where, ()), problems
        return [problem for problem in problems if problem not in before]


class _JsonFormatter(logging.Formatter):
    """Writes each record as a JSON object on a line; the time is UTC."""

    def format(self, record: logging.LogRecord) -> str:
        record_fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            record_fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(record_fields, ensure_ascii=False)


class _JournalFormatter(logging.Formatter):
    """Puts the priority that journald understands before each line."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        priority = f"<{_PRIORITIES.get(record.levelno, 6)}>"
        return "\n".join(priority + line for line in self._lines.format(record).splitlines())
