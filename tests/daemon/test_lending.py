from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.big_site import named_in
from freetrain.core.fragment import End, FragmentState
from freetrain.core.job import JobState
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Reservation
from freetrain.core.throughput import Observation
from freetrain.daemon.executor import Mode
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.lending.facts import SiteOrders
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmUnreachableError
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import NODES, FakeSlurm, waiting


def lent_to(
    slurm: FakeSlurm, start_daemon: StartDaemon, tag: str, tasks: int = 4, held: bool = True
) -> tuple[str, Daemon]:
    """An array whose tasks run already, and the daemon that lent them their nodes."""
    array = slurm.submit_array(tag, tasks=tasks, held=held)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    return array, daemon


def test_idle_nodes_are_lent_within_one_cycle(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1,max=4")
    daemon = start_daemon()
    daemon.cycle()
    assert len(slurm.running(array)) == 4
    daemon.cycle()
    assert {fragment.state for fragment in daemon.cluster.books.open} == {FragmentState.RUNNING}
    assert {fragment.decision for fragment in daemon.cluster.books.open} == {"1:1"}


def test_observing_and_advising_change_nothing(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    slurm.submit_array("freetrain:min=1", held=False)
    slurm.submit_array("freetrain:nonsense=1")
    start_daemon(Mode.OBSERVE).cycle()
    advising = start_daemon(Mode.ADVISE)
    decision = advising.cycle()
    assert decision.placement
    assert slurm.told == []
    assert {row.result for row in advising.ledger.commands()} == {"advised only"}


def test_two_trainers_share_the_nodes(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    arrays = [slurm.submit_array("freetrain:min=1", tasks=8, user=user) for user in ("news", "games")]
    daemon = start_daemon()
    for _ in range(4):
        daemon.cycle()
    sizes = [len(slurm.running(array)) for array in arrays]
    assert sum(sizes) == len(NODES)
    assert min(sizes) >= 3


def test_a_constraint_is_kept(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    for name in ("n2", "n5", "n6"):
        slurm.nodes[name] = replace(slurm.nodes[name], features=frozenset({"a100"}))
    anywhere = slurm.submit_array("freetrain:min=1", tasks=8)
    particular = slurm.submit_array("freetrain:min=1", tasks=8, constraint="a100")
    daemon = start_daemon()
    daemon.cycle()
    assert slurm.running(particular) == ["n2", "n5", "n6"]
    assert slurm.running(anywhere) == ["n1", "n3", "n4", "n7", "n8"]
    daemon.cycle()
    assert slurm.running(particular) == ["n2", "n5", "n6"]


def test_a_preempted_fragment_is_an_eviction_and_the_trainer_is_planned_anew(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1,max=8", tasks=8)
    job = slurm.submit(nodes=3)
    assert slurm.jobs[job].state is JobState.RUNNING
    daemon.cycle()
    assert len(slurm.running(array)) == 5
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.PREEMPTED: 3}
    slurm.finish(job)
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 8


def test_a_node_that_is_free_again_is_lent_at_the_very_look_that_finds_the_eviction(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1", tasks=8)
    slurm.finish(slurm.submit(nodes=2))
    daemon.cycle()
    assert len(slurm.running(array)) == 8


def test_nodes_are_given_back_before_a_reservation_and_lent_again_after_it(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1,max=8", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    begin_s = slurm.now_s + 200
    slurm.reservations.append(Reservation("maintenance", frozenset({"n1", "n2"}), begin_s, begin_s + 100))
    daemon.cycle()
    assert len(slurm.running(array)) == 8
    limits = {min(job.nodes): job.limit_s for job in slurm.jobs.values() if job.state is JobState.RUNNING}
    assert limits["n1"] < 200 < limits["n3"]
    while slurm.now_s < begin_s - 50:
        daemon.cycle()
    assert slurm.running(array) == list(NODES[2:])
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.RELEASED: 2}
    slurm.reservations.clear()
    daemon.cycle()
    assert len(slurm.running(array)) == 8


def test_when_one_trainer_completes_the_others_grow(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    first, second = (slurm.submit_array("freetrain:min=1", tasks=8) for _ in range(2))
    daemon = start_daemon()
    for _ in range(4):
        daemon.cycle()
    daemon.cycle({first: Report(True, 10.0, (), 5)})
    assert slurm.running(first) == []
    daemon.cycle()
    assert len(slurm.running(second)) == 8
    assert [command for command in slurm.told if command[0] == "scancel"] == [("scancel", first)]


def test_a_target_reached_is_a_completion(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1,target=1000")
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle({array: Report(False, 999.0, (), 5)})
    assert slurm.running(array)
    daemon.cycle({array: Report(False, 1000.0, (), 9)})
    assert slurm.running(array) == []


def test_a_program_that_ends_well_everywhere_is_complete_without_a_directory(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1,max=2", tasks=2)
    slurm.finish(f"{array}_0")
    daemon.cycle()
    assert ("scancel", array) not in slurm.told
    assert slurm.running(array) == ["n2"]
    slurm.finish(f"{array}_1")
    daemon.cycle()
    daemon.cycle()
    assert slurm.told.count(("scancel", array)) == 0  # nothing was left of it that could be cancelled
    assert not any(command[1] == "requeuehold" for command in slurm.told)


def test_a_task_that_leaves_in_good_order_during_a_grace_time_is_needed_again(
    start_daemon: StartDaemon, slurm: FakeSlurm
) -> None:
    slurm.partitions["freetrain"] = FakeSlurm(grace_s=30.0).partitions["freetrain"]
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1,max=2", tasks=2)
    slurm.leave_in_grace(f"{array}_0")
    slurm.leave_in_grace(f"{array}_1")
    daemon.cycle()
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.PREEMPTED: 2}
    assert slurm.jobs[f"{array}_0"].is_held
    daemon.cycle()
    daemon.cycle()
    for task in range(2):
        slurm.finish(f"{array}_{task}")
    daemon.cycle()
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.PREEMPTED: 2, End.COMPLETED: 2}
    assert daemon.ledger.trainers()[array].state is TrainerState.COMPLETE


def test_a_task_that_has_just_left_by_itself_when_it_is_given_back_is_needed_again(
    start_daemon: StartDaemon, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm preempts it, it leaves, and what would requeue it comes a moment later, and finds it completed."""
    slurm.partitions["freetrain"] = FakeSlurm(grace_s=30.0).partitions["freetrain"]
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1,max=2", tasks=2)
    perform = slurm.perform

    def left_before(command: Command, stdin: str = "") -> str:
        if command[:3] == ("scontrol", "requeuehold", "Incomplete"):
            for task in named_in(command[3]):
                slurm.leave_in_grace(task)
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", left_before)
    slurm.reservations.append(Reservation("now", frozenset(NODES), slurm.now_s + 1, slurm.now_s + 60))
    for _ in range(3):
        daemon.cycle()
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.PREEMPTED: 2}
    assert all(slurm.jobs[f"{array}_{task}"].is_held for task in range(2))
    assert daemon.ledger.trainers()[array].state is TrainerState.ACTIVE


def test_measured_throughput_decides_who_grows(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    good, bad = (slurm.submit_array("freetrain:min=1", tasks=8) for _ in range(2))
    daemon = start_daemon()
    for _ in range(4):
        daemon.cycle()
    scales = (Observation(1, 100.0, 5.0), Observation(4, 360.0, 5.0))
    does_not = (Observation(1, 100.0, 5.0), Observation(4, 101.0, 5.0))
    for offset in range(4):
        daemon.cycle({good: Report(False, 1.0, scales, offset), bad: Report(False, 1.0, does_not, offset)})
    assert len(slurm.running(good)) > 2 * len(slurm.running(bad)) > 0


def test_failures_rest_and_then_pause_a_trainer_and_its_owner_is_told(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon = start_daemon()
    for _ in range(18):
        daemon.cycle(after_s=9000.0)
        daemon.cycle()
        if slurm.running(array):
            slurm.finish(f"{array}_0", JobState.FAILED)
    daemon.cycle()
    daemon.cycle()
    comment = slurm.jobs[f"{array}_0"].comment
    assert comment.startswith("freetrain:min=1,max=1 | paused after 8 failures in a row")
    daemon.cycle(after_s=9000.0)
    assert slurm.running(array) == []
    slurm.perform(("scontrol", "update", f"JobId={array}", "Comment=freetrain:min=1,max=1"))
    daemon.cycle()
    daemon.cycle()
    assert slurm.running(array)


def test_when_one_fragment_fails_the_others_go_on(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1", tasks=4)
    slurm.finish(f"{array}_1", JobState.FAILED)
    daemon.cycle()
    daemon.cycle()
    assert slurm.running(array) == ["n1", "n3", "n4"]
    daemon.cycle(after_s=70.0)
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 4


def test_a_wrong_tag_is_answered_once_in_the_comment_and_a_mended_one_counts(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:mni=1")
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert slurm.jobs[f"{array}_0"].comment == "freetrain:mni=1 | there is no key mni; did you mean min?"
    assert len(slurm.told) == 1
    slurm.perform(("scontrol", "update", f"JobId={array}", "Comment=freetrain:min=1"))
    daemon.cycle()
    assert slurm.running(array)


def test_nobody_elses_job_is_ever_touched(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    untagged = slurm.submit_array("just a comment")
    tagged_elsewhere = slurm.submit(comment="freetrain:min=1")
    plain = slurm.submit(partition="freetrain")
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert slurm.told == []
    assert slurm.jobs[tagged_elsewhere].state is slurm.jobs[plain].state is JobState.RUNNING
    assert slurm.jobs[f"{untagged}_0"].is_held


def test_the_stop_file_takes_everything_back(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1")
    daemon.cycle(orders=SiteOrders(stopped="the stop file is there"))
    assert slurm.running(array) == []
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 4


def test_while_the_partition_is_down_nothing_more_is_lent(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1,max=2", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    slurm.partitions["freetrain"] = replace(slurm.partitions["freetrain"], is_up=False)
    other = slurm.submit_array("freetrain:min=1")
    daemon.cycle()
    assert len(slurm.running(array)) == 2
    assert slurm.running(other) == []


def test_what_slurm_does_not_start_is_called_off_and_its_node_rests(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon = start_daemon()
    slurm.stuck = True
    daemon.cycle()
    (asked,) = daemon.cluster.books.open
    daemon.cycle(after_s=100.0)
    slurm.stuck = False
    daemon.cycle()
    assert daemon.ledger.fragments(0.0)[0].end is End.NEVER_STARTED
    daemon.cycle()
    (running,) = daemon.cluster.books.open
    assert running.node != asked.node


def test_what_waits_for_its_start_is_fitted_to_a_hole_that_has_become_shorter(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon = start_daemon()
    slurm.stuck = True
    daemon.cycle()
    assert slurm.jobs[f"{array}_0"].limit_s == 86400
    slurm.reservations.append(Reservation("m", frozenset(NODES), slurm.now_s + 1000, slurm.now_s + 2000))
    daemon.cycle()
    assert slurm.jobs[f"{array}_0"].limit_s == (1000 - 60 - 5 - 6) // 60 * 60


def test_a_limit_of_its_owners_rests_a_trainer(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon = start_daemon()
    slurm.stuck = True
    daemon.cycle()
    task = f"{array}_0"
    slurm.jobs[task] = waiting(slurm.jobs[task], "QOSMaxJobsPerUserLimit")
    daemon.cycle(after_s=100.0)
    assert "QOSMaxJobsPerUserLimit" in daemon.ledger.trainers()[array].note
    daemon.cycle()
    assert not daemon.cluster.books.open


def test_tasks_that_their_owner_released_are_held_or_adopted(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1,max=2", tasks=12, held=False)
    assert len(daemon.cluster.books.open) == len(slurm.running(array)) == 2
    assert all(job.is_held for job in slurm.jobs.values() if job.state is JobState.PENDING)


def test_when_slurm_does_not_answer_nothing_is_concluded(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1")
    before = daemon.cluster.books.open
    slurm.away = True
    with pytest.raises(SlurmUnreachableError):
        daemon.cycle()
    assert daemon.cluster.books.open == before
    slurm.away = False
    told = len(slurm.told)
    daemon.cycle()
    assert len(slurm.told) == told
    assert len(slurm.running(array)) == 4


def test_too_much_harm_ends_all_lending_for_a_while(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array, daemon = lent_to(slurm, start_daemon, "freetrain:min=1", tasks=8)
    for _ in range(6):
        slurm.advance(100.0)
        job = slurm.submit(nodes=1)
        # As if it had been there for long, unseen, before Slurm evicted for it.
        slurm.jobs[job] = replace(slurm.jobs[job], submitted_s=slurm.now_s - 90)
        daemon.cycle()
        slurm.finish(job)
        daemon.cycle()
    assert len(daemon.ledger.harms()) >= 4
    daemon.cycle()
    assert slurm.running(array) == []
    daemon.cycle(after_s=3700.0)
    assert len(slurm.running(array)) == 8


def test_what_a_training_is_charged_to_is_remembered(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    array = slurm.submit_array("freetrain:min=1")
    for account in ("press", ""):
        slurm.jobs = {id_: replace(job, account=account) for id_, job in slurm.jobs.items()}
        daemon.cycle()
        assert daemon.ledger.trainers()[array].account == "press"
