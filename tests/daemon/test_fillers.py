"""Fillers: arrays of ordinary programs, each task of which is lent a node and runs to its end, once."""

from __future__ import annotations

from collections import Counter

import pytest

from freetrain.core.fragment import End
from freetrain.core.job import JobState
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Reservation
from freetrain.lending.causes import AT_ONCE_S
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm
from tests.daemon.test_submitting import submitting

TAG = "freetrain:kind=tasks"
ALL = 8


def completed_runs(slurm: FakeSlurm, array: str) -> Counter[str]:
    """Task → how often it has completed."""
    return Counter(
        run.id for run in slurm.history if run.id.startswith(f"{array}_") and run.state is JobState.COMPLETED
    )


def each_once(array: str, tasks: int) -> Counter[str]:
    return Counter(f"{array}_{task}" for task in range(tasks))


def finish_all(slurm: FakeSlurm, array: str, state: JobState = JobState.COMPLETED) -> list[str]:
    """All tasks that run end; these."""
    running = [job.id for job in slurm.jobs.values() if job.array == array and job.state is JobState.RUNNING]
    for task in running:
        slurm.finish(task, state)
    return running


def state_of(daemon: Daemon, array: str) -> TrainerState:
    return daemon.ledger.trainers()[array].state


def run_out(slurm: FakeSlurm, daemon: Daemon, array: str) -> None:
    """Every task completes from one look to the next, until none is left."""
    for _ in range(20):
        daemon.cycle()
        if not finish_all(slurm, array) and state_of(daemon, array) is TrainerState.COMPLETE:
            return
    raise AssertionError("it goes on and on")


def test_every_task_of_an_ordinary_array_runs_once_and_then_it_is_complete(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=20)
    daemon = start_daemon()
    daemon.cycle()
    assert len(slurm.running(array)) == ALL
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, 20)
    assert daemon.ledger.trainers()[array].note == ""
    assert not [command for command in slurm.told if command[0] == "scancel"]


def test_a_task_whose_node_the_site_takes_back_runs_again_and_the_others_go_on(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=ALL)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    job = slurm.submit(nodes=3)
    assert len(slurm.running(array)) == ALL - 3
    daemon.cycle()
    finish_all(slurm, array)
    slurm.finish(job)
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, ALL)
    assert daemon.ledger.ends_by_trainer([array])[array] == {End.COMPLETED: ALL, End.PREEMPTED: 3}


def test_a_daemon_that_is_started_again_in_the_middle_runs_no_task_twice(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=20)
    daemon = start_daemon()
    daemon.cycle()
    slurm.finish(f"{array}_0")
    slurm.advance(AT_ONCE_S + 1)
    slurm.finish(f"{array}_1", JobState.FAILED)
    slurm.submit(nodes=2)
    run_out(slurm, start_daemon(), array)
    expected = each_once(array, 20)
    del expected[f"{array}_1"]
    assert completed_runs(slurm, array) == expected


def test_its_owner_may_have_a_task_that_failed_run_again_after_all_others(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    slurm.advance(AT_ONCE_S + 1)
    slurm.finish(f"{array}_0", JobState.FAILED)
    run_out(slurm, daemon, array)
    slurm.perform(("scontrol", "requeuehold", f"{array}_0"))
    daemon.cycle()
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, 2)


@pytest.mark.parametrize("cut_off", [JobState.TIMEOUT, JobState.NODE_FAIL, JobState.PREEMPTED])
def test_a_task_that_was_cut_off_runs_again(
    slurm: FakeSlurm, start_daemon: StartDaemon, cut_off: JobState
) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    slurm.finish(f"{array}_0", cut_off)
    finish_all(slurm, array)
    daemon.cycle()
    assert state_of(daemon, array) is TrainerState.ACTIVE
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, 2)


def test_a_task_that_fails_has_had_its_turn_and_stops_no_other(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(f"{TAG},max=2", tasks=16)
    daemon = start_daemon()
    daemon.cycle()
    for _ in range(6):
        slurm.advance(AT_ONCE_S + 1)
        assert len(finish_all(slurm, array, JobState.FAILED)) == 2
        daemon.cycle()
    assert state_of(daemon, array) is TrainerState.ACTIVE
    run_out(slurm, daemon, array)
    assert sum(completed_runs(slurm, array).values()) == 4
    assert not [command for command in slurm.told if command[1] == "requeuehold"]


@pytest.mark.parametrize(
    ("notice", "said", "again"),
    [
        ("no", JobState.COMPLETED, False),
        ("yes", JobState.COMPLETED, True),
        ("no", JobState.FAILED, True),
        ("yes", JobState.FAILED, True),
    ],
)
def test_what_a_task_says_in_a_grace_time_is_taken_as_its_owner_says(
    start_daemon: StartDaemon, slurm: FakeSlurm, notice: str, said: JobState, again: bool
) -> None:
    slurm.partitions["freetrain"] = FakeSlurm(grace_s=30.0).partitions["freetrain"]
    array = slurm.submit_array(f"{TAG},notice={notice}", tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    slurm.leave_in_grace(f"{array}_0", said)
    daemon.cycle()
    daemon.cycle()
    assert (slurm.jobs[f"{array}_0"].state is JobState.RUNNING) == again


def test_in_a_hole_whose_end_is_near_no_task_is_begun_that_would_be_of_no_use(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    first = frozenset({"n1", "n2", "n3"})
    slurm.reservations.append(Reservation("m", first, slurm.now_s + 600, slurm.now_s + 7200))
    daemon = start_daemon(horizon_s=1800.0)
    long = slurm.submit_array(f"{TAG},shortest=900", tasks=ALL)
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(long)) == ALL - 3
    saving = slurm.submit_array(f"{TAG},save=60", tasks=ALL)
    daemon.cycle()
    daemon.cycle()
    assert first <= set(slurm.running(saving))


def test_beside_a_training_of_the_same_user_the_nodes_go_where_they_do_most(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    training = slurm.submit_array("freetrain:max=8,weight=1,curve=1:100/2:195/4:260/8:300", tasks=8)
    array = slurm.submit_array(f"{TAG},weight=0.5,start=1", tasks=20)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert (len(slurm.running(training)), len(slurm.running(array))) == (2, 6)


def test_two_users_share_the_nodes_whatever_they_hand_in(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    training = slurm.submit_array("freetrain:max=8", tasks=8, user="news")
    array = slurm.submit_array(f"{TAG},weight=100", tasks=200, user="games")
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert (len(slurm.running(training)), len(slurm.running(array))) == (4, 4)


def test_what_its_tasks_would_lose_is_what_they_have_done_since_they_saved(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    loses = {"": 100.0, ",save=60": 30.0, ",save=600": 100.0, ",notice=yes": 0.0}
    arrays = {slurm.submit_array(f"{TAG},max=2{keys}", tasks=2): lost_s for keys, lost_s in loses.items()}
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle(after_s=100.0)
    asked = {request.id: request.trainer for request in daemon.cluster.registered.requests}
    assert {array: asked[array].scale_down_s for array in arrays} == pytest.approx(arrays)


def test_how_long_its_tasks_take_is_learned_from_those_that_complete_and_remembered(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(f"{TAG},max=3", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    ends = ((20.0, JobState.COMPLETED), (40.0, JobState.COMPLETED), (400.0, JobState.FAILED))
    for task, (after_s, state) in enumerate(ends):
        slurm.advance(after_s)
        slurm.finish(f"{array}_{task}", state)
        daemon.cycle(after_s=0.0)
    again = start_daemon()
    again.cycle()
    (request,) = again.cluster.registered.requests
    assert request.task_s == pytest.approx(40.0, abs=1.0), "20 and 60 s; what failed does not count"


def test_hostile_keys_are_answered_and_harm_nobody_else(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    wrong = {
        "min=2": "min is for kind=training only",
        "notice=perhaps": "is neither yes nor no",
        "save=0": "must be more than 0",
        "shortest=-1": "is not a number",
    }
    refused = {slurm.submit_array(f"{TAG},{keys}"): why for keys, why in wrong.items()}
    endless = slurm.submit_array(f"{TAG},shortest=1e99,start=1e99")
    good = slurm.submit_array(TAG, tasks=ALL)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    for array, why in refused.items():
        assert why in slurm.jobs[f"{array}_0"].comment
    assert slurm.running(endless) == []
    assert len(slurm.running(good)) == ALL


def test_where_fragments_are_copies_of_one_job_it_is_refused(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    pattern = slurm.submit_array(TAG, tasks=1)
    daemon = start_daemon(launcher=submitting())
    daemon.cycle()
    daemon.cycle()
    assert state_of(daemon, pattern) is TrainerState.REFUSED
    assert "needs lend.launcher = steer" in slurm.jobs[f"{pattern}_0"].comment


def test_slurm_forgets_tasks_that_have_ended_and_nothing_follows_from_it(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=12)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    finish_all(slurm, array)
    daemon.cycle()
    for task in list(completed_runs(slurm, array)):
        slurm.forget(task)
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, 12)
