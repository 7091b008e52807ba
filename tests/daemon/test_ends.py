"""How submissions end, are paused and go on."""

from __future__ import annotations

import pytest

from freetrain.core.fragment import End
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import JobState
from freetrain.core.known_trainer import UNKNOWN_END, TrainerState
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.lending.facts import SiteOrders
from freetrain.slurm.commands import Command, set_comment
from freetrain.slurm.comments import ask_to_resume
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.submissions import find_submissions
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm
from tests.daemon.test_submitting import fragments_in, submitting

TAG = "freetrain:min=1,max=4"
GOES_ON = Report(False, 10.0, (), 5)


def state_of(daemon: Daemon, array: str) -> TrainerState:
    return daemon.ledger.trainers()[array].state


def comments(slurm: FakeSlurm, array: str) -> set[str]:
    return {job.comment for job in slurm.jobs.values() if job.array == array}


def fail_all(slurm: FakeSlurm, array: str) -> None:
    for job in list(slurm.jobs.values()):
        if job.state is JobState.RUNNING and (job.array == array or f"of={array}," in job.comment):
            slurm.finish(job.id, JobState.FAILED)


def fail_until_paused(slurm: FakeSlurm, daemon: Daemon, array: str) -> None:
    """All of its fragments fail whenever they run; then the daemon looks three times more."""
    for _ in range(20):
        daemon.cycle(after_s=2000.0)
        daemon.cycle()
        fail_all(slurm, array)
        if state_of(daemon, array) is TrainerState.PAUSED:
            break
    for _ in range(3):
        daemon.cycle()
    assert state_of(daemon, array) is TrainerState.PAUSED


def resume(slurm: FakeSlurm, array: str) -> None:
    """What ``freetrain resume`` tells Slurm."""
    submission = find_submissions(slurm.jobs.values(), FragmentQueue("freetrain"))[array]
    slurm.perform(set_comment(submission.open_tasks, ask_to_resume(submission.comment, slurm.now_s)))


def refuse(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Slurm refuses each command with these letters."""
    perform = slurm.perform

    def perform_others(command: Command, stdin: str = "") -> str:
        if what in " ".join(command):
            raise SlurmRefusedError("no")
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", perform_others)


@pytest.mark.parametrize("tasks", [1, 2, 40])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_training_whose_tasks_all_failed_is_kept_answered_and_resumed_at_the_next_look(
    slurm: FakeSlurm, start_daemon: StartDaemon, tasks: int, restarted: bool
) -> None:
    array = slurm.submit_array(TAG, tasks=tasks)
    daemon = start_daemon()
    fail_until_paused(slurm, daemon, array)
    assert {job.state for job in slurm.jobs.values()} == {JobState.PENDING}, "Slurm would forget those that ended"
    assert [comment.partition(" | ")[2][:22] for comment in comments(slurm, array)] == [
        f"paused after {8 if tasks == 1 else 5} failure"
    ], "one node alone may be at fault for longer"
    daemon.cycle(after_s=5000.0)
    assert slurm.running(array) == [], "while it is paused nothing is lent"
    if restarted:
        daemon = start_daemon()
    resume(slurm, array)
    daemon.cycle()
    assert len(slurm.running(array)) == min(tasks, 4)
    assert comments(slurm, array) == {TAG}


@pytest.mark.parametrize("restarted", [False, True])
def test_an_owner_who_takes_the_answer_out_himself_resumes_it_too(
    slurm: FakeSlurm, start_daemon: StartDaemon, restarted: bool
) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    fail_until_paused(slurm, daemon, array)
    if restarted:
        daemon = start_daemon()
    slurm.perform(set_comment(array, TAG))
    daemon.cycle()
    assert len(slurm.running(array)) == 2


def test_an_answer_that_slurm_refuses_is_given_again_and_resume_works_without_it(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    with monkeypatch.context() as patch:
        refuse(slurm, patch, "Comment=")
        fail_until_paused(slurm, daemon, array)
        assert comments(slurm, array) == {TAG}
    daemon.cycle(after_s=100.0)
    assert "paused after" in next(iter(comments(slurm, array)))
    resume(slurm, array)
    daemon.cycle()
    with monkeypatch.context() as patch:
        refuse(slurm, patch, "Comment=")
        fail_until_paused(slurm, daemon, array)
    resume(slurm, array)  # nothing says that it is paused
    daemon.cycle()
    assert len(slurm.running(array)) == 2


def test_a_request_to_resume_counts_once(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    fail_until_paused(slurm, daemon, array)
    resume(slurm, array)
    refuse(slurm, monkeypatch, "Comment=")  # so that the request stays where it is
    daemon.cycle()
    fail_until_paused(slurm, start_daemon(), array)
    assert slurm.running(array) == []


def test_tasks_that_failed_are_kept_in_slurm_while_the_trainer_rests_and_resume_ends_the_rest(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=1)
    daemon = start_daemon()
    daemon.cycle()
    slurm.finish(f"{array}_0", JobState.OUT_OF_MEMORY)
    daemon.cycle()
    assert state_of(daemon, array) is TrainerState.RESTING
    assert slurm.jobs[f"{array}_0"].is_held
    resume(slurm, array)
    daemon.cycle()
    assert slurm.running(array)
    assert comments(slurm, array) == {TAG}


def test_a_remark_of_the_owners_is_left_alone(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array(f"{TAG} | for Tuesday")
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert comments(slurm, array) == {f"{TAG} | for Tuesday"}


def test_a_pattern_whose_fragments_all_failed_is_resumed_too(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    pattern = slurm.submit_array(TAG, tasks=1)
    daemon = start_daemon(launcher=submitting())
    fail_until_paused(slurm, daemon, pattern)
    assert fragments_in(slurm) == []
    resume(slurm, pattern)
    daemon.cycle()
    daemon.cycle()
    assert len(fragments_in(slurm)) == 4


def run_tasks(slurm: FakeSlurm, daemon: Daemon, array: str, looks: int) -> list[str]:
    """Every task runs from one look to the next; those that ran, in order."""
    ran = []
    for _ in range(looks):
        daemon.cycle()
        for job in list(slurm.jobs.values()):
            if job.array == array and job.state is JobState.RUNNING:
                ran.append(job.id)
                slurm.finish(job.id)
    return ran


@pytest.mark.parametrize("tag", ["freetrain:max=4", "freetrain:min=3,max=4", "freetrain:max=4,dir=/nowhere"])
def test_of_an_ordinary_array_every_task_runs_once_and_none_is_cancelled(
    slurm: FakeSlurm, start_daemon: StartDaemon, tag: str
) -> None:
    array = slurm.submit_array(tag, tasks=11)
    daemon = start_daemon()
    ran = run_tasks(slurm, daemon, array, looks=2)
    assert len(ran) == 8
    daemon.cycle()
    assert daemon.ledger.trainers()[array].note == UNKNOWN_END
    for task in ran:
        slurm.forget(task)
    ran += run_tasks(slurm, daemon, array, looks=4)
    assert sorted(ran) == sorted(f"{array}_{task}" for task in range(11))
    assert not [command for command in slurm.told if command[0] == "scancel" or command[1] == "requeuehold"]
    assert state_of(daemon, array) is TrainerState.COMPLETE
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.COMPLETED: 11}


def test_tasks_of_an_ordinary_array_that_complete_one_by_one_are_replaced(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:max=4", tasks=12)
    daemon = start_daemon()
    daemon.cycle()
    for task in range(4):
        daemon.cycle()
        slurm.finish(f"{array}_{task}")
        daemon.cycle()
        assert len(slurm.running(array)) == 4


def test_an_ordinary_task_that_completes_as_its_node_is_taken_back_is_not_run_again(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = slurm.submit_array("freetrain:max=4", tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    perform = slurm.perform

    def complete_first(command: Command, stdin: str = "") -> str:
        if command[:2] == ("scontrol", "requeuehold"):
            slurm.finish(f"{array}_0")
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", complete_first)
    daemon.cycle(orders=SiteOrders(stopped="the stop file is there"))
    monkeypatch.undo()
    daemon.cycle()
    daemon.cycle()
    assert slurm.jobs[f"{array}_0"].state is JobState.COMPLETED
    assert slurm.jobs[f"{array}_1"].state is JobState.RUNNING


@pytest.mark.parametrize("restarted", [False, True])
def test_an_ordinary_task_that_slurm_preempts_in_a_grace_time_runs_again(
    start_daemon: StartDaemon, slurm: FakeSlurm, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.partitions["freetrain"] = FakeSlurm(grace_s=30.0).partitions["freetrain"]
    array = slurm.submit_array("freetrain:max=4", tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    slurm.leave_in_grace(f"{array}_0")
    slurm.finish(f"{array}_1")
    with monkeypatch.context() as patch:
        refuse(slurm, patch, "requeuehold")
        daemon.cycle()
    if restarted:
        daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert slurm.jobs[f"{array}_0"].state is JobState.RUNNING
    assert slurm.jobs[f"{array}_1"].state is JobState.COMPLETED


def test_with_a_record_what_is_left_of_a_complete_training_is_cancelled(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:max=2,dir=/shared/t", tasks=6)
    daemon = start_daemon()
    daemon.cycle({array: GOES_ON})
    daemon.cycle({array: GOES_ON})
    slurm.finish(f"{array}_0")
    daemon.cycle({array: GOES_ON})
    assert len(slurm.running(array)) == 1, "nobody joins while the others follow"
    slurm.finish(f"{array}_1")
    daemon.cycle({array: Report(True, 10.0, (), 9)})
    assert ("scancel", array) in slurm.told
    assert daemon.ledger.trainers()[array].note == ""


def test_an_elastic_training_that_goes_on_gets_back_the_tasks_that_left_it_in_good_order(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:max=2,dir=/shared/t", tasks=2)
    daemon = start_daemon()
    daemon.cycle({array: GOES_ON})
    daemon.cycle({array: GOES_ON})
    slurm.finish(f"{array}_0")
    slurm.finish(f"{array}_1")
    for _ in range(3):
        daemon.cycle({array: GOES_ON})
    assert len(slurm.running(array)) == 2


def test_a_pattern_without_a_record_is_complete_when_its_fragments_are(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    pattern = slurm.submit_array("freetrain:max=2", tasks=1)
    daemon = start_daemon(launcher=submitting())
    daemon.cycle()
    daemon.cycle()
    for job in list(slurm.jobs.values()):
        if job.state is JobState.RUNNING:
            slurm.finish(job.id)
    daemon.cycle()
    assert slurm.jobs[f"{pattern}_0"].state is JobState.CANCELLED
    assert state_of(daemon, pattern) is TrainerState.COMPLETE
