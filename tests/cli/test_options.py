from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.cli.options import DurationType, option, parse_beginning, parse_time, takes_options

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z
HOUR_S, DAY_S = 3600.0, 86400.0


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's zone, an hour before UTC in winter."""
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


TIMES = [
    ("now", 0.0),
    ("now-2days", -2 * DAY_S),
    ("now-1day", -DAY_S),
    ("now+2hours", 2 * HOUR_S),
    ("now+1hour", HOUR_S),
    ("now+30minutes", HOUR_S / 2),
    ("now+1minute", 60.0),
    ("now-90seconds", -90.0),
    ("now+1second", 1.0),
    ("now-2weeks", -14 * DAY_S),
    ("now-1week", -7 * DAY_S),
    ("now+3600", HOUR_S),
    ("now-1-12", -1.5 * DAY_S),
    ("now+0:10:00", 600.0),
    (" now-2h ", -2 * HOUR_S),
    ("2026-01-01T02:00", HOUR_S),
    ("2026-01-01", -HOUR_S),
    ("2026-01-01 01:00:30", 30.0),
    ("2026-01-01T02:00Z", 2 * HOUR_S),
    ("2026-01-01T02:00+05:00", -3 * HOUR_S),
]


@pytest.mark.parametrize(("text", "from_now_s"), TIMES)
def test_forms_of_a_time(text: str, from_now_s: float) -> None:
    assert parse_time(text, NOW_S) == NOW_S + from_now_s
    assert parse_beginning(text, NOW_S) == NOW_S + from_now_s


@pytest.mark.parametrize(
    ("text", "ago_s"), [("2h", 2 * HOUR_S), ("7d", 7 * DAY_S), ("1-12", 1.5 * DAY_S), ("unlimited", math.inf)]
)
def test_a_duration_is_so_long_ago(text: str, ago_s: float) -> None:
    assert parse_beginning(text, NOW_S) == NOW_S - ago_s


NONSENSE = [
    "",
    "soon",
    "tomorrow",
    "now-",
    "now-soon",
    "now 2h",
    "now-unlimited",
    "2026-13-01",
    "nowhere",
    "-2days",
]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write"):
        parse_time(text, NOW_S)
    with pytest.raises(ValueError, match="is not a duration and not a time; write"):
        parse_beginning(text, NOW_S)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30.0), ("0.5", 0.5), ("90s", 90.0), ("10:00", 600.0), ("1-12", 129_600.0), ("2h", 7200.0)],
)
def test_an_options_duration_has_slurms_forms(text: str, seconds: float) -> None:
    assert DurationType().convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soon", "write 90s, 15m"),
        ("-5", "is not a duration"),
        ("0.1", "shorter than 0.2 s"),
        ("UNLIMITED", "no end"),
    ],
)
def test_an_options_duration_that_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(click.BadParameter, match=says):
        DurationType(least_s=0.2).convert(text, None, None)


def test_a_duration_may_have_no_end_where_that_means_something() -> None:
    assert DurationType(endless=True).convert("UNLIMITED", None, None) == math.inf


def durations(command: click.Command) -> Iterator[click.Parameter]:
    """Options in seconds, of a command or of those below it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from durations(command.get_command(context, name) or click.Command(name))
    options = (option for option in command.params if isinstance(option, click.Option))
    yield from (option for option in options if str(option.name).endswith("_s") or option.metavar == "SECONDS")


def test_every_option_in_seconds_is_a_duration_or_a_time() -> None:
    found = list(durations(cli))
    names = {each.name for each in found}
    assert {"interval_s", "grace_s", "time_limit_s", "horizon_s", "for_s", "leave_timeout_s"} <= names
    others = [
        each for each in found if not isinstance(each.type, DurationType) and "TIME" not in str(each.metavar)
    ]
    assert others == []


@dataclass(frozen=True, slots=True)
class Wishes:
    quiet: bool = option("-q --quiet", "Say nothing.")
    lasts_s: float | None = option("--lasts", "How long.")
    picture: Path | None = option("--picture", "Where it goes.", unset=None)
    names: tuple[str, ...] = option("--name", "Whose.", unset=())


def test_an_option_is_declared_once_with_the_type_of_its_value() -> None:
    found: list[Wishes] = []

    @click.command()
    @takes_options(Wishes, "wishes")
    def wish(wishes: Wishes) -> None:
        found.append(wishes)

    words = ["-q", "--lasts", "2h", "--picture", "there.html", "--name", "alice", "--name", "bob"]
    assert CliRunner().invoke(wish, words).exit_code == 0
    assert CliRunner().invoke(wish, []).exit_code == 0
    assert found == [Wishes(True, 7200.0, Path("there.html"), ("alice", "bob")), Wishes(False, None)]
    assert "--picture FILE" in CliRunner().invoke(wish, ["--help"]).output
