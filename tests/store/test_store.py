from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core.decision import Decision, Status
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.errors import InputError, StateError
from freetrain.store import NewRun, RunStatus, Store, default_store_path
from freetrain.store.ledger import DAEMON_COMMAND
from tests.store.samples import (
    BERT,
    NAMES,
    OUTCOME,
    PLACEMENT,
    PROBLEM,
    RECORDS,
    RESNET,
    decide,
    new_run,
)


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "runs.db")


def record_run(store, decisions=1, command="replay log.txt"):
    with store.begin_run(new_run(command)) as run:
        for _ in range(decisions):
            run.record(PROBLEM, decide())
        run.finish(OUTCOME, RECORDS, 1.7e9 + 60)
    return run.run_id


def test_a_recorded_decision_comes_back_and_verifies(store):
    run_id = record_run(store, decisions=3)
    problem, decision = store.decision(run_id, 2)
    assert problem == PROBLEM
    assert decision == decide()
    assert verify(problem, decision) == ()


def test_a_decision_in_arbitrary_node_order_still_verifies(store):
    shuffled = replace(PROBLEM, nodes=PROBLEM.nodes[::-1])
    with store.begin_run(new_run()) as run:
        run.record(shuffled, decide(shuffled))
    problem, decision = store.decision(run.run_id, 1)
    assert verify(problem, decision) == ()
    assert set(problem.nodes) == set(shuffled.nodes)


def test_a_trainer_that_changes_during_the_run_comes_back_as_it_was_each_time(store):
    heavier = replace(RESNET, weight=3.0)
    later = replace(PROBLEM, trainers=(BERT, heavier))
    with store.begin_run(new_run()) as run:
        run.record(PROBLEM, decide())
        run.record(later, decide(later))
    assert store.decision(run.run_id, 1)[0].trainers == (RESNET, BERT)
    assert store.decision(run.run_id, 2)[0].trainers == (BERT, heavier)


def test_a_trainer_is_stored_once_however_often_it_is_seen(store):
    run_id = record_run(store, decisions=5)
    assert store.run(run_id).trainer_count == 2


def test_a_finished_run_tells_what_it_came_to(store):
    details = store.run(record_run(store, decisions=2))
    assert details.summary.status is RunStatus.COMPLETE
    assert details.summary.decision_count == 2
    assert details.summary.node_count == len(NAMES)
    assert details.summary.outcome == OUTCOME
    assert details.summary.ended_s == 1.7e9 + 60
    assert details.summary.settings == {"policy": "freetrain", "solver": {"threads": 2}}
    assert details.statuses == {"heuristic": 2}
    assert details.solvers == {"by hand": 2}


def test_trainers_come_with_most_samples_first_and_only_those_that_were_seen(store):
    assert store.run(record_run(store)).trainers == (RECORDS[1], RECORDS[0])


def test_numpy_numbers_and_paths_in_settings_and_outcome_are_no_obstacle(store):
    run = replace(new_run(), settings={"log": Path("a.log"), "seed": np.int64(7)})
    with store.begin_run(run) as running:
        running.finish({"nodes": np.int64(3), "u_dedicated": np.float64(0.5)}, (), 5.0)
    details = store.run(running.run_id)
    assert details.summary.settings == {"log": "a.log", "seed": 7}
    assert details.summary.outcome == {"nodes": 3, "u_dedicated": 0.5}


def test_decisions_are_listed_without_their_problems(store):
    run_id = record_run(store, decisions=3)
    decisions = store.decisions(run_id)
    assert [decision.number for decision in decisions] == [1, 2, 3]
    assert (decisions[0].idle_nodes, decisions[0].lent_nodes) == (len(PROBLEM.nodes), 3)
    assert decisions[0].status is Status.HEURISTIC
    assert decisions[0].notes == ("said the test",)
    assert len(store.decisions(run_id, most=2)) == 2


def test_runs_are_listed_newest_first(store):
    record_run(store, command="first")
    record_run(store, command="second")
    assert [run.command for run in store.runs()] == ["second", "first"]


def test_a_run_in_progress_is_listed_and_its_batches_can_be_read(store):
    with store.begin_run(new_run(), batch_decisions=2) as run:
        for _ in range(3):
            run.record(PROBLEM, decide())
        (listed,) = Store.open_existing(store.path).runs()
        assert (listed.status, listed.decision_count) == (RunStatus.RUNNING, 2)
        assert store.decision(run.run_id, 2)[1].placement == PLACEMENT


def record_until(run, error):
    with run:
        run.record(PROBLEM, decide())
        raise error


def set_pragma(run, pragma):
    run._connection.connection.driver_connection.execute(f"PRAGMA {pragma}")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_keeps_what_was_recorded(store, error):
    with pytest.raises(error):
        record_until(store.begin_run(new_run()), error)
    (listed,) = store.runs()
    assert (listed.status, listed.decision_count, listed.outcome) == (RunStatus.INTERRUPTED, 1, {})
    assert store.decision(listed.id, 1)[0] == PROBLEM


def test_ctrl_c_right_after_a_batch_was_written_does_not_write_it_twice(store):
    class InterruptedOnce(dict):
        def clear(self):
            super().clear()
            raise KeyboardInterrupt

    run = store.begin_run(new_run())
    run._new_trainers = InterruptedOnce()
    run.record(PROBLEM, decide())
    with pytest.raises(KeyboardInterrupt), run:
        run.finish(OUTCOME, RECORDS, 1.0)
    assert (store.runs()[0].status, len(store.decisions(run.run_id))) == (RunStatus.INTERRUPTED, 1)


def test_a_run_that_is_left_without_finish_is_interrupted(store):
    with store.begin_run(new_run()):
        pass
    assert store.runs()[0].status is RunStatus.INTERRUPTED


def test_a_full_disk_is_told_without_hiding_that_the_run_is_interrupted(store):
    run = store.begin_run(new_run())
    # SQLite takes 1 for: not more than it has now.
    set_pragma(run, "max_page_count = 1")
    problem = Problem(0.0, (), tuple(Trainer(f"trainer {number}", ((1, 1.0),)) for number in range(500)))
    run.record(problem, decide(problem, {}))
    with pytest.raises(StateError, match="the disk is full"), run:
        run.finish({}, (), 1.0)
    assert store.runs()[0].status is RunStatus.INTERRUPTED


def test_an_error_in_a_run_is_not_hidden_by_a_store_that_cannot_be_written(store):
    run = store.begin_run(new_run())
    set_pragma(run, "query_only = ON")
    with pytest.raises(RuntimeError, match="the solver broke") as caught:
        record_until(run, RuntimeError("the solver broke"))
    assert "the last 1 decisions are lost" in caught.value.__notes__[0]


def test_deleting_a_run_deletes_its_trainers_and_decisions(store):
    run_id = record_run(store)
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
    for table in ("trainers", "decisions"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    connection.close()


def test_an_unknown_run_is_told_with_those_there_are(store):
    with pytest.raises(InputError, match="no run has been recorded yet"):
        store.run(1)
    for _ in range(3):
        record_run(store)
    with pytest.raises(InputError, match="There is no run 9; there is 1–3"):
        store.run(9)


def test_an_unknown_decision_is_told_with_the_range_there_is(store):
    run_id = record_run(store, decisions=2)
    with pytest.raises(InputError, match="has no decision 3; it has 1 to 2"):
        store.decision(run_id, 3)


def test_the_default_store_follows_the_environment(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("FREETRAIN_STORE", raising=False)
    assert default_store_path() == Path("/home/ada/.local/state/freetrain/freetrain.db")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_store_path() == Path("/state/freetrain/freetrain.db")
    monkeypatch.setenv("FREETRAIN_STORE", "~/my.db")
    assert default_store_path() == Path("/home/ada/my.db")


def test_trainers_that_are_gone_are_forgotten_and_known_again_when_they_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freetrain.store.journal._MOST_GONE", 3)
    store = Store.open(tmp_path / "runs.db")
    names = ("n1",)
    trainers = [Trainer(f"t{number}", ((1, 1.0 + number),)) for number in range(20)]
    problems = [
        Problem(float(at_s), (Place("n1"),), (trainer,)) for at_s, trainer in enumerate([*trainers, *trainers])
    ]
    decision = Decision(Status.OPTIMAL, 1.0, {}, "none", 0.0, 0.0, ())
    run = NewRun("freetrain daemon", "1", {}, 0.0, 0.0, 0.0, names)
    with store.begin_run(run, batch_decisions=1) as journal:
        for problem in problems:
            journal.record(problem, decision)
            assert len(journal._seen) <= 6
    assert [store.decision(journal.run_id, 1 + at)[0] for at in range(40)] == problems
    assert store.run(journal.run_id).trainer_count == 20


def test_trainers_go_with_the_last_decision_that_they_are_part_of_and_may_come_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "runs.db")
    ledger, hour_s, keep_s = store.ledger(), 3600.0, 8 * 3600.0
    trainers = [Trainer(f"t{number}", ((1, 1.0 + number),)) for number in range(60)]
    # One stays, one comes every ten hours, and each of the others is there for two hours.
    problems = [
        Problem(
            hour * hour_s,
            (Place("n1"),),
            (trainers[0], *trainers[hour + 2 : hour + 4], *trainers[1:2][hour % 10 :]),
        )
        for hour in range(50)
    ]
    decision = Decision(Status.OPTIMAL, 1.0, {}, "none", 0.0, 0.0, ())
    with store.begin_run(NewRun(DAEMON_COMMAND, "1", {}, 0.0, 0.0, 0.0, ("n1",)), batch_decisions=1) as journal:
        for number, problem in enumerate(problems, 1):
            journal.record(problem, decision)
            ledger.forget(problem.now_s - keep_s)
            for kept in {max(1, number - 8), number}:
                assert store.decision(journal.run_id, kept)[0] == problems[kept - 1]
            assert store.run(journal.run_id).trainer_count <= 14


def test_what_an_earlier_version_wrote_of_trainers_goes_with_the_last_decision_of_its_run(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "runs.db")
    problem = Problem(1000.0, (Place("n1"),), (Trainer("t", ((1, 1.0),)),))
    decision = Decision(Status.OPTIMAL, 1.0, {}, "none", 0.0, 0.0, ())
    with store.begin_run(NewRun(DAEMON_COMMAND, "1", {}, 0.0, 0.0, 0.0, ("n1",)), batch_decisions=1) as journal:
        journal.record(problem, decision)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection, connection:
        connection.execute("UPDATE trainers SET last_s = NULL")
    store.ledger().forget(1000.0)
    assert store.run(journal.run_id).trainer_count == 1
    store.ledger().forget(1001.0)
    assert store.run(journal.run_id).trainer_count == 0
