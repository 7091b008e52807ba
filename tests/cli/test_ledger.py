from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.harm import Harm
from freetrain.core.job import JobRun, JobState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.errors import ExitCode
from freetrain.store import Store
from tests.daemon.fake_slurm import CONFIG, FakeSlurm

TAG = "freetrain:min=1,start=36,grow=18,shrink=0 | paused after 5 failures"
HOUR_S = 3600.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def fragment(job: str, node: str, begin: str, hours: float, end: End = End.RELEASED) -> Fragment:
    start_s = at(begin)
    end_s = start_s + hours * HOUR_S
    trainer = job.partition("_")[0]
    return Fragment(job, trainer, node, FragmentState.ENDED, start_s, 9e4, start_s, end_s, end, "1:2")


FRAGMENTS = [
    fragment("7_0", "n1", "2026-01-31T22:00", 4.0),
    fragment("7_1", "n2", "2026-02-10T00:00", 2.0, End.PREEMPTED),
    fragment("8_0", "n3", "2026-02-10T00:00", 1.0),
    fragment("9_0", "n4", "2026-02-10T00:00", 1.0),
    Fragment("9_1", "9", "n5", FragmentState.ENDED, at("2026-02-11T00:00"), 9e4, end=End.NEVER_STARTED),
]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "freetrain.toml").write_text(f"[state]\ndirectory = '{tmp_path}'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "freetrain.toml"))
    store = Store.open(tmp_path / "freetrain.db")
    news = KnownTrainer("7", "news", TAG, TrainerState.ACTIVE, 1.0, account="press")
    ledger = store.ledger()
    ledger.save_trainers([news, replace(news, id="8", owner="games", account="fun"), replace(news, id="9")])
    ledger.save_fragments(FRAGMENTS)
    return store


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["ledger", *arguments], catch_exceptions=False)


def rows(*arguments: str) -> list[list[str]]:
    return [line.split("|") for line in run("-P", "-h", *arguments).stdout.splitlines()]


def test_the_hours_of_a_month_are_those_within_it() -> None:
    assert rows("--month", "2026-01") == [["press", "news", "1", "0", "2.00", "1.99", "0.01", "0.00"]]
    assert rows("--month", "2026-02") == [
        ["fun", "games", "1", "0", "1.00", "0.99", "0.01", "0.00"],
        ["press", "news", "2", "1", "5.00", "4.98", "0.02", "0.00"],
    ]


def test_lines_are_for_what_is_asked_and_their_sum_stands_below_for_people() -> None:
    both = ("--from", "2026-01-01", "--until", "2026-03-01")
    assert [row[:2] for row in rows(*both, "--by", "month,training", "-o", "month,training")] == [
        ["2026-01", "7"], ["2026-02", "7"], ["2026-02", "8"], ["2026-02", "9"],
    ]  # fmt: skip
    assert rows(*both, "--by", "account", "-o", "account,node-hours") == [["fun", "1.00"], ["press", "7.00"]]
    shown = run(*both, "--by", "account").stdout.splitlines()
    assert shown[0].startswith("No daemon is at work here")
    assert shown[-5] == "Lent from 2026-01-01 00:00:00Z until 2026-03-01 00:00:00Z:"
    assert shown[-1].split() == ["total", "4", "1", "8.00", "7.96", "0.04", "0.00"]


def test_days_are_months_in_parts() -> None:
    both = ("--from", "2026-01-31", "--until", "2026-02-02", "-o", "day,node-hours")
    assert rows(*both, "--by", "day") == [["2026-01-31", "2.00"], ["2026-02-01", "2.00"]]


def test_the_last_month_is_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for now, begins in (("2026-03-31T10:00", "2026-02-01"), ("2026-01-01T00:00:01", "2025-12-01")):
        monkeypatch.setattr("freetrain.cli.ledger.time.time", lambda now=now: at(now))
        assert json.loads(run("--month", "last", "--json").stdout)["from"] == at(begins)


def test_a_month_becomes_a_page(store: Store, tmp_path: Path) -> None:
    store.ledger().record_harm(Harm("99", at("2026-02-10T02:00"), 4.0, 1.0, 0.0, ("7_1",)))
    store.ledger().record_harm(Harm("98", at("2026-03-10T02:00"), 4.0, 1.0, 0.0, ("7_1",)))
    prices = "[prices]\ngpus_per_node = 4\nper_gpu_hour = 2.0\n"
    (tmp_path / "freetrain.toml").write_text(f"[state]\ndirectory = '{tmp_path}'\n{prices}")
    done = run("--month", "2026-02", "--report", str(tmp_path / "ledger.html"), "--json")
    page = (tmp_path / "ledger.html").read_text()
    for text in ("news", "games", "2026-02-10: 4", '<th scope="row">99</th>', "What it is worth"):
        assert text in page
    assert page.count("<li title=") == 28
    assert '<th scope="row">98</th>' not in page
    document = json.loads(done.stdout)
    assert document["delays"] == {"jobs": 1, "seconds": 5.0}
    worth = [entry["worth"]["gpu_hours"] for entry in document["entries"]]
    assert worth == [pytest.approx(4 * entry["useful_node_hours"]) for entry in document["entries"]]


def test_long_ranges_are_drawn_by_month(tmp_path: Path) -> None:
    run("--from", "2026-01-01", "--until", "2026-07-01", "--report", str(tmp_path / "ledger.html"))
    assert (tmp_path / "ledger.html").read_text().count("<li title=") == 6


def test_programs_get_json_and_csv() -> None:
    document = json.loads(run("--month", "2026-01", "--json").stdout)
    assert (document["format"], document["from"]) == ("freetrain-ledger/1", at("2026-01-01"))
    assert document["daemon"]["is_at_work"] is False
    (entry,) = document["entries"]
    assert (entry["account"], entry["user"], entry["node_hours"]) == ("press", "news", 2.0)
    assert entry["useful_node_hours"] == pytest.approx(1.99)
    lines = list(csv.DictReader(run("--month", "2026-02", "--csv").stdout.splitlines()))
    assert [(line["USER"], line["NODE-HOURS"]) for line in lines] == [("games", "1.00"), ("news", "5.00")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--month", "january"), "'january' is not a month"),
        (("--month", "2026-01", "--from", "2026-01-01"), "Either a month is given, or times"),
        (("--from", "2026-02-01", "--until", "2026-01-01"), "is empty"),
        (("--from", "2999-01-01"), "lies in the future"),
        (("--by", "node"), "write some of month, day, account, user, training"),
    ],
)
def test_what_cannot_be_meant_is_said(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, says in result.stderr) == (ExitCode.USAGE, True), result.stderr


def test_where_accounting_tells_something_else_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm()
    monkeypatch.setattr("freetrain.cli.site.OpenedWhenAsked", lambda *_: slurm)
    assert "there is nothing to check against" in run("--month", "2026-02", "--check").stderr
    slurm.config = f"{CONFIG}AccountingStorageType = accounting_storage/slurmdbd\n"
    slurm.runs = lambda arrays: [run for run in slurm.history if run.id.split("_")[0] in arrays]
    for fragment in FRAGMENTS[:4]:
        slurm.history.append(JobRun(fragment.job, JobState.COMPLETED, fragment.started_s, fragment.ended_s))
    agreed = run("--month", "2026-02", "--check")
    assert agreed.stdout.startswith("No daemon is at work here")
    assert (agreed.exit_code, agreed.stdout.splitlines()[-1]) == (
        0,
        "6.00 node-hours in the ledger, 6.00 in accounting: none of 4 times that a node was lent differs.",
    )
    slurm.history[1] = replace(slurm.history[1], end_s=at("2026-02-10T01:00"))
    differs = run("--month", "2026-02", "--check", "-P", "-h")
    assert (differs.exit_code, differs.stdout) == (
        1, "7_1|n2|2026-02-10 00:00:00Z|7200|3600|3600 s more in the ledger\n",
    )  # fmt: skip
    document = json.loads(run("--month", "2026-02", "--check", "--json").stdout)
    assert (document["format"], len(document["differences"])) == ("freetrain-ledger-check/1", 1)
    assert document["daemon"]["is_at_work"] is False
