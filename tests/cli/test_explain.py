from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.config import Config
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.harm import Harm
from freetrain.core.place import Place, Traits
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.daemon.reports.status import LookStatus, NodeGroup, StatusFile, TrainerStatus
from freetrain.errors import ExitCode
from freetrain.lending.node_verdicts import what_changes
from freetrain.store import Store
from freetrain.store.ledger import DAEMON_COMMAND
from freetrain.store.schema import schema_of
from tests.store.samples import decide, new_run

NAMES = tuple(f"n{number}" for number in range(1, 7))
CURVE = ((1, 100.0), (2, 190.0), (4, 340.0), (6, 420.0))
TOO_FEW = "needs 4 nodes at once; its user's share is 2 nodes"
LOOK = LookStatus(
    time_s=0.0,
    took_s=0.1,
    nodes=(
        NodeGroup("n[1-4]", "lent", "7", until_s=2e9),
        NodeGroup("n5", "free"),
        NodeGroup("n6", "not lent", why="kept in reserve for the site", verdict="reserve"),
    ),
    trainers=(
        TrainerStatus("7", "news", "active", lent="n[1-4]", ends={"preempted": 2, "released": 1}),
        TrainerStatus("8", "games", "active", verdict="too few nodes", why=TOO_FEW),
        TrainerStatus("9", "games", "paused", note="paused after 5 failures in a row"),
    ),
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "freetrain.toml"
    config.write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    lending = Config.model_validate({"lend": {"mode": "act"}})
    StatusFile(tmp_path, 30.0, False).looked(lending, replace(LOOK, time_s=time.time()))
    return tmp_path


@pytest.fixture
def store(state: Path) -> Store:
    """A database with a decision: training 7 has four nodes, training 6 of the same user one."""
    store = Store.open(state / "freetrain.db")
    trainers = (Trainer("7", CURVE, max_nodes=6), Trainer("6", CURVE, max_nodes=6))
    offers = tuple(Place(name, None, "7" if number < 4 else "6") for number, name in enumerate(NAMES[:5]))
    problem = Problem(1000.0, offers, trainers)
    with store.begin_run(new_run(DAEMON_COMMAND, NAMES), batch_decisions=1) as journal:
        journal.record(problem, decide(problem, {"7": NAMES[:4], "6": ("n5",)}))
        journal.record(Problem(1010.0, offers, trainers[1:]), decide(Problem(1010.0, offers, trainers[1:]), {}))
        journal.finish({}, [], 1020.0)
    ledger = store.ledger()
    ledger.save_fragments(
        [Fragment("7_0", "7", "n1", FragmentState.RUNNING, 990.0, 3600.0, 995.0, decision="1:1")]
    )
    ledger.record_harm(Harm("41", 1000.0, 1.0, 2.0, 3.5, ("7_0", "7_1")))
    return store


def run(what: str, *options: str) -> Result:
    return CliRunner().invoke(cli, ["explain", what, *options])


def said(what: str) -> list[str]:
    sentences = json.loads(run(what, "--json").stdout)["sentences"]
    assert isinstance(sentences, list)
    return sentences


@pytest.mark.usefixtures("store")
def test_a_trainings_last_decision_and_what_one_more_node_would_have_been_worth() -> None:
    first, ends, decision, note, more = said("7")
    assert first == "Training 7 of news is active and has 4 nodes (n[1-4])."
    assert ends == "Its fragments ended so far: 2 preempted, 1 released."
    assert decision == (
        "Decision 1:1 of 1970-01-01 00:16:40Z (by hand, heuristic) shared 5 nodes among 2 trainings: "
        "it got 4 nodes, 6 got 1 node."
    )
    assert note == "said the test"
    assert more.startswith("With one more node, of 6, all would have been worth ")
    found = re.search(r"worth ([\d.]+) instead of ([\d.]+) \(speedup, over 120 s\)\.$", more)
    assert found is not None
    assert float(found[1]) < float(found[2])


def test_of_tasks_of_several_nodes_it_says_which_run_on_how_many(state: Path) -> None:
    store = Store.open(state / "freetrain.db")
    tasks = tuple(
        Trainer(f"7_{number}", ((1, 1.0), (4, 4.0)), min_nodes=2, max_nodes=4, start_s=10, moldable=True)
        for number in range(3)
    )
    offers = tuple(Place(name, None, "7_0" if number < 2 else None) for number, name in enumerate(NAMES))
    problem = Problem(1000.0, offers, (*tasks, Trainer("6", CURVE)))
    with store.begin_run(new_run(DAEMON_COMMAND, NAMES), batch_decisions=1) as journal:
        journal.record(problem, decide(problem, {"7_0": NAMES[:2], "7_1": NAMES[2:4]}))
        journal.finish({}, [], 1020.0)
    decision, running, note, more, last = said("7")[2:]
    assert decision == (
        "Decision 1:1 of 1970-01-01 00:16:40Z (by hand, heuristic) shared 6 nodes among 3 of its tasks and "
        "1 other trainings or tasks."
    )
    assert running == "2 of them run (7_0 on 2, 7_1 on 2), 1 from now on."
    assert note == "said the test"
    assert more == (
        "With one more started, on 2 nodes that nobody has, all would have been worth 680 instead of 460 "
        "(speedup, over 120 s)."
    )
    assert last.startswith("Each keeps its nodes until it ends")


@pytest.mark.usefixtures("store")
def test_a_task_stands_for_its_training() -> None:
    assert said("7_3") == said("7")


def test_what_a_tag_says_is_quoted_as_it_is_written(state: Path) -> None:
    refused = TrainerStatus("10", "games", "refused", note="min=x is not a number of nodes")
    look = replace(LOOK, time_s=time.time(), trainers=(*LOOK.trainers, refused))
    StatusFile(state, 30.0, False).looked(Config.model_validate({"lend": {"mode": "act"}}), look)
    assert "min=x is not a number of nodes." in said("10")
    assert "Paused after 5 failures in a row." in said("9")


@pytest.mark.usefixtures("store")
def test_who_waits_is_told_for_what() -> None:
    assert said("8")[1] == "It waits: needs 4 nodes at once; its user's share is 2 nodes."
    assert "None of the last decisions was about it." in said("8")
    assert said("9")[1] == "Paused after 5 failures in a row."


def test_an_older_database_is_left_to_its_daemon_and_the_rest_is_said(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
    said = run("7").stdout
    assert f"What was decided cannot be read: The store {store.path} has schema 0008" in said
    assert "freetrain db upgrade" in said
    assert "has schema 0008" in run("41").stderr, "the job may be known there"
    assert schema_of(store.path) == "0008"


@pytest.mark.usefixtures("state")
def test_without_the_database_the_rest_is_said() -> None:
    first, _, last = said("7")
    assert first.startswith("Training 7 of news is active")
    assert last.startswith("What was decided cannot be read: No daemon has worked here yet")


def test_of_what_is_over_nothing_waits(state: Path) -> None:
    over = TrainerStatus("12", "news", "complete", verdict="complete", why="it is complete")
    look = replace(LOOK, time_s=time.time(), trainers=(over,))
    StatusFile(state, 30.0, False).looked(Config.model_validate({"lend": {"mode": "act"}}), look)
    assert said("12")[:2] == ["Training 12 of news is complete and has 0 nodes.", "It is over."]


@pytest.mark.usefixtures("store")
def test_a_lent_node_has_a_training_an_end_and_a_decision() -> None:
    assert said("n1") == [
        "n1 is lent to training 7 of news. Somebody is expected to want it at 2033-05-18 03:33:20Z.",
        "Fragment 7_0 has it since 1970-01-01 00:16:35Z, by decision 1:1.",
    ]


def test_what_a_policy_with_a_value_of_its_own_weighed_is_said(state: Path) -> None:
    store = Store.open(state / "freetrain.db")
    trainer = Trainer("7", CURVE, max_nodes=6, target_samples=4e5)
    offers = tuple(Place(name) for name in NAMES[:4])
    problem = Problem(1000.0, offers, (trainer,), 1000.0)
    with store.begin_run(new_run(DAEMON_COMMAND, NAMES), batch_decisions=1) as journal:
        journal.record(problem, decide(problem, {"7": NAMES[:2]}, "gadget"))
        journal.finish({}, [], 1020.0)
    assert any(each.endswith("had 4 nodes for it alone: it got 2 nodes.") for each in said("7"))
    assert (
        "gadget weighed the utility gained until the horizon: 1 node 0.25, 2 nodes 0.475, 3 nodes 0.6625, "
        "4 nodes 0.85." in said("7")
    )


@pytest.mark.usefixtures("state")
def test_a_free_node_names_who_waits() -> None:
    assert said("n5") == [
        "n5 may be lent, and no training has it.",
        "Trainings that wait: 8: needs 4 nodes at once; its user's share is 2 nodes.",
    ]


@pytest.mark.usefixtures("state")
def test_a_node_that_is_not_lent_says_what_would_have_to_change() -> None:
    assert said("n6") == [
        "n6 is not lent: kept in reserve for the site.",
        "lend.reserve_nodes and lend.most_nodes say how many are lent at most.",
    ]
    assert what_changes("drained", "n6") == "'freetrain undrain n6' ends that."
    assert what_changes("of a later release", "n6") == ""


@pytest.mark.usefixtures("store")
def test_a_job_of_the_sites_own_that_was_delayed() -> None:
    (sentence,) = said("41")
    assert "Job 41 is one of the site's own. It started at 1970-01-01 00:16:40Z, 6.5 s later" in sentence
    assert "until fragments 7_0, 7_1 had left" in sentence


@pytest.mark.usefixtures("store")
def test_a_job_of_the_sites_own_that_waits_for_a_limit_of_fragments(state: Path) -> None:
    text = "Job 11 waits for a limit of account ml in which fragments count (AssocGrpCpuLimit)."
    lending = Config.model_validate({"lend": {"mode": "act"}})
    look = replace(LOOK, time_s=time.time(), limited={"11": text})
    StatusFile(state, 30.0, False).looked(lending, look)
    assert said("11") == [text]


@pytest.mark.usefixtures("store")
def test_what_nobody_knows_is_answered_with_a_sentence() -> None:
    result = run("n77")
    assert result.exit_code == ExitCode.USAGE
    assert "freetrain knows no training, node or delayed job n77." in result.stderr


@pytest.mark.usefixtures("store")
def test_people_see_how_the_daemon_stands_first() -> None:
    lines = run("n6").stdout.splitlines()
    assert lines[0].startswith("The daemon (process")
    assert lines[2:] == ["", *said("n6")]


def explained(state: Path, problem: Problem, sizes: dict[str, int], solver: str = "by hand") -> list[str]:
    """What is said of training 7 after a decision on this problem."""
    store, left = Store.open(state / "freetrain.db"), list(NAMES)
    placement = {trainer: tuple(left.pop(0) for _ in range(size)) for trainer, size in sizes.items()}
    with store.begin_run(new_run(DAEMON_COMMAND, NAMES), batch_decisions=1) as journal:
        journal.record(problem, decide(problem, placement, solver))
        journal.finish({}, [], 1020.0)
    return said("7")


def with_deadline(due_in_s: float, objective: str = "speedup,deadlines=3") -> Problem:
    trainers = (
        Trainer("7", CURVE, max_nodes=4, target_samples=1e5, deadline_s=1000.0 + due_in_s),
        Trainer("6", CURVE, max_nodes=4),
    )
    return Problem(1000.0, tuple(Place(name) for name in NAMES[:4]), trainers, 600.0, objective)


def test_what_a_deadline_asks_for_and_what_it_did_is_said(state: Path) -> None:
    sentences = explained(state, with_deadline(400.0), {"7": 4})
    at = sentences.index(
        "Its deadline, 1970-01-01 00:23:20Z, asks for 4 nodes from now on: what it trains on them counts 4 times."
    )
    assert sentences[at + 1] == "Without deadlines it would have got 2 nodes."


@pytest.mark.parametrize(
    ("due_in_s", "objective", "why"),
    [
        (-1.0, "speedup,deadlines=3", "has passed, so it makes no difference any more."),
        (200.0, "speedup,deadlines=3", "cannot be met, even on all 4 nodes that it can use from now on, so it"),
        (400.0, "speedup", "makes no difference: the objective (speedup) counts no deadlines."),
    ],
)
def test_why_a_deadline_makes_no_difference_is_said(
    state: Path, due_in_s: float, objective: str, why: str
) -> None:
    sentences = explained(state, with_deadline(due_in_s, objective), {"7": 2, "6": 2})
    assert any(each.startswith("Its deadline, 1970-01-01 00:") and why in each for each in sentences)
    assert not any(each.startswith("Without deadlines") for each in sentences)


def test_who_has_no_deadline_is_told_whose_took_nodes_from_it(state: Path) -> None:
    problem = with_deadline(400.0)
    swapped = tuple(
        replace(trainer, id=other) for trainer, other in zip(problem.trainers, ("6", "7"), strict=True)
    )
    sentences = explained(state, replace(problem, trainers=swapped), {"6": 4})
    assert "Without deadlines of 6 it would have got 2 nodes." in sentences


def test_what_electricity_did_is_said(state: Path) -> None:
    offers = tuple(Place(name, traits=Traits(watts=1000.0)) for name in NAMES[:4])
    trainers = (Trainer("7", CURVE, max_nodes=4, weight=2.0),)
    sentences = explained(state, Problem(1000.0, offers, trainers, 600.0, "weighted,energy=3000"), {"7": 2})
    assert (
        "Electricity counts: what a node adds must be worth 1.67 for one of 1,000 W (weighted a second, "
        "energy=3000); otherwise it would have got 4 nodes." in sentences
    )
