from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from freetrain.config import Log
from freetrain.daemon.log_output import formatter, set_levels, start_logging

NAMES = ("", "freetrain.slurm", "freetrain.daemon", "alembic", "apscheduler")


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """They are everybody's, and are left as they were."""
    before = {name: logging.getLogger(name).level for name in NAMES}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def record(level: int, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("freetrain.daemon.service", level, "", 0, message, args, None)


def with_exception(level: int, message: str) -> logging.LogRecord:
    try:
        raise OSError("no space\nleft")
    except OSError:
        return logging.LogRecord("freetrain.daemon.service", level, "", 0, message, (), sys.exc_info())


@pytest.mark.parametrize(
    ("level", "line"),
    [
        (logging.DEBUG, "<7>job 7 left"),
        (logging.INFO, "<6>job 7 left"),
        (logging.WARNING, "<4>job 7 left"),
        (logging.ERROR, "<3>job 7 left"),
        (logging.CRITICAL, "<2>job 7 left"),
        (25, "<6>job 7 left"),
    ],
)
def test_the_journal_gets_the_priority_of_each_line_and_no_time(level: int, line: str) -> None:
    assert formatter(Log(), in_journal=True).format(record(level, "job %d left", 7)) == line


def test_the_journal_gets_the_priority_of_each_line_of_a_traceback() -> None:
    lines = formatter(Log(), in_journal=True).format(with_exception(logging.ERROR, "failed")).splitlines()
    assert len(lines) > 3
    assert all(line.startswith("<3>") for line in lines)


def test_a_terminal_gets_the_time_and_no_priority() -> None:
    said = formatter(Log(), in_journal=False).format(record(logging.ERROR, "failed"))
    assert said.endswith(" failed")
    assert said[:2] == "20"


@pytest.mark.parametrize(("in_journal", "before"), [(False, ""), (True, "<4>")])
def test_json_is_one_object_a_line(in_journal: bool, before: str) -> None:
    warning = record(logging.WARNING, "user %s:\nzwölf", "anna")
    warning.created = 1_767_225_600.25
    line = formatter(Log(format="json"), in_journal).format(warning)
    assert line.startswith(before + "{")
    assert json.loads(line.removeprefix(before)) == {
        "time": "2026-01-01T00:00:00.250+00:00", "level": "warning", "logger": "freetrain.daemon.service",
        "message": "user anna:\nzwölf",
    }  # fmt: skip
    assert "\n" not in line


def test_json_holds_the_text_of_an_exception() -> None:
    line = formatter(Log(format="json"), in_journal=False).format(with_exception(logging.ERROR, "failed"))
    assert json.loads(line)["exception"].endswith("OSError: no space\nleft")
    assert "\n" not in line


@pytest.mark.parametrize(("stream", "before"), [("8:123", "<4>"), (None, "20")])
def test_what_systemd_starts_logs_for_the_journal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stream: str | None, before: str
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if stream:
        monkeypatch.setenv("JOURNAL_STREAM", stream)
    start_logging(Log())
    logging.getLogger("freetrain.daemon").warning("look")
    assert capsys.readouterr().err.startswith(before)


def test_loggers_have_the_levels_that_are_named() -> None:
    set_levels(Log(level="info", levels={"freetrain.slurm": "debug", "freetrain.daemon": "warning"}), Log())
    assert logging.getLogger("freetrain.daemon").getEffectiveLevel() == logging.WARNING
    assert logging.getLogger("freetrain.slurm.opening").getEffectiveLevel() == logging.DEBUG
    assert logging.getLogger("alembic").getEffectiveLevel() == logging.WARNING
    assert logging.getLogger("apscheduler").getEffectiveLevel() == logging.ERROR


def test_a_logger_that_is_named_no_more_follows_the_others_again() -> None:
    before = Log(levels={"freetrain.slurm": "debug", "alembic": "debug"})
    set_levels(before, Log())
    set_levels(Log(), before)
    assert logging.getLogger("freetrain.slurm").getEffectiveLevel() == logging.INFO
    assert logging.getLogger("alembic").getEffectiveLevel() == logging.WARNING
