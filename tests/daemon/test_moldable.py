"""Moldable fillers: each task gets as many nodes as are best when it starts, and keeps them until it ends."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from freetrain.core.fragment import End, FragmentState
from freetrain.core.job import JobState
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Reservation
from freetrain.lending.causes import AT_ONCE_S
from freetrain.slurm.errors import SlurmUnreachableError
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm, waiting
from tests.daemon.test_fillers import completed_runs, each_once, finish_all, run_out, state_of

TAG = "freetrain:kind=tasks,nodes=2-4"
ALL = 8


def sizes(slurm: FakeSlurm, array: str) -> dict[str, int]:
    """Task that runs → its nodes."""
    return {
        job.id: len(job.nodes)
        for job in slurm.jobs.values()
        if job.array == array and job.state is JobState.RUNNING
    }


def open_nodes(daemon: Daemon) -> Counter[str]:
    """Task → how many nodes the ledger knows that it has."""
    return Counter(fragment.job for fragment in daemon.ledger.open_fragments())


def test_each_task_runs_once_on_nodes_of_its_own_until_all_have(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=7)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    begun = sizes(slurm, array)
    assert sum(begun.values()) == ALL
    assert all(2 <= size <= 4 for size in begun.values())
    assert open_nodes(daemon) == begun
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, 7)
    assert (
        daemon.ledger.ends_by_trainer([array])[array]
        == daemon.cluster.books.runs[array].ends
        == {End.COMPLETED: 7}
    )


def test_a_task_that_runs_keeps_its_size_though_nodes_become_idle_beside_it(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    job = slurm.submit(nodes=5)
    array = slurm.submit_array(TAG, tasks=1)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert sizes(slurm, array) == {f"{array}_0": 3}
    slurm.finish(job)
    for _ in range(3):
        daemon.cycle()
    assert sizes(slurm, array) == {f"{array}_0": 3}


def test_a_task_of_which_one_node_is_taken_back_gives_up_all_and_runs_again_at_another_size(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=2-8", tasks=1)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert sizes(slurm, array) == {f"{array}_0": 8}
    slurm.submit(nodes=1)
    for _ in range(3):
        daemon.cycle()
    assert sizes(slurm, array) == {f"{array}_0": 7}
    assert daemon.cluster.books.runs[array].ends == {End.PREEMPTED: 1}


def test_a_node_that_is_due_ends_the_whole_task_and_none_of_its_nodes_stays_lent(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=4", tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    whose = next(job for job in slurm.jobs.values() if "n1" in job.nodes)
    slurm.reservations.append(Reservation("m", frozenset({"n1"}), slurm.now_s + 20, slurm.now_s + 7200))
    daemon.cycle()
    assert slurm.jobs[whose.id].state is JobState.PENDING
    daemon.cycle()
    (other,) = sizes(slurm, array).items()
    assert other == (next(f"{array}_{task}" for task in (0, 1) if f"{array}_{task}" != whose.id), 4)
    assert open_nodes(daemon) == {other[0]: 4}
    ordered = [command for command in slurm.told if command[1] == "requeuehold"]
    assert ordered == [("scontrol", "requeuehold", "Incomplete", whose.id)]


def test_a_size_is_chosen_whose_nodes_stay_long_enough(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    short = frozenset({"n1", "n2", "n3"})
    slurm.reservations.append(Reservation("m", short, slurm.now_s + 600, slurm.now_s + 7200))
    daemon = start_daemon(horizon_s=1800.0)
    array = slurm.submit_array("freetrain:kind=tasks,nodes=2-8,shortest=900", tasks=2)
    for _ in range(3):
        daemon.cycle()
    assert sorted(sizes(slurm, array).values()) in ([5], [2, 3])
    assert not short & set(slurm.running(array))


def test_a_task_uses_no_more_nodes_than_its_curve_makes_worth_it_beside_others(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=2-8,curve=2:1/4:1.1/8:1.2", tasks=4)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert sorted(sizes(slurm, array).values()) == [2, 2, 2, 2]


def test_a_most_for_all_of_its_tasks_is_never_exceeded(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array(f"{TAG},max=6", tasks=9)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
        assert sum(sizes(slurm, array).values()) <= 6
    assert sum(sizes(slurm, array).values()) == 6


def test_its_time_limit_is_that_of_the_first_of_its_nodes_to_leave(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=8,notice=yes", tasks=1)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    task = f"{array}_0"
    for name, in_s in (("n2", 7200.0), ("n5", 3600.0)):
        slurm.reservations.append(Reservation(name, frozenset({name}), slurm.now_s + in_s, slurm.now_s + 9000))
    daemon.cycle()
    job = slurm.jobs[task]
    assert job.state is JobState.RUNNING
    assert job.start_s is not None
    assert slurm.now_s + 3000 < job.start_s + job.limit_s < slurm.now_s + 3600
    assert {fragment.limit_s for fragment in daemon.ledger.open_fragments()} == {job.limit_s}
    told = [command for command in slurm.told if any(word.startswith("TimeLimit") for word in command)]
    assert told[-1][2] == f"JobId={task}"


def test_two_users_share_the_nodes_and_an_elastic_training_takes_what_is_left(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    training = slurm.submit_array("freetrain:max=8", tasks=8, user="news")
    array = slurm.submit_array("freetrain:kind=tasks,nodes=3-8", tasks=50, user="games")
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert (len(slurm.running(training)), len(slurm.running(array))) == (4, 4)


def test_it_counts_as_one_trainer_of_the_site_s_most_however_many_of_its_tasks_run(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    tag = "freetrain:kind=tasks,nodes=2"
    arrays = [slurm.submit_array(tag, tasks=20, user=user) for user in ("news", "games", "maps")]
    daemon = start_daemon(max_running=2)
    for _ in range(3):
        daemon.cycle()
    assert sorted(len(slurm.running(array)) for array in arrays) == [0, 4, 4]


@pytest.mark.parametrize("deaf_after", range(0, 16, 3))
def test_a_daemon_that_is_cut_off_anywhere_and_started_again_runs_no_task_twice(
    slurm: FakeSlurm, start_daemon: StartDaemon, deaf_after: int
) -> None:
    array = slurm.submit_array(TAG, tasks=5)
    slurm.deaf_after = deaf_after
    with suppress(SlurmUnreachableError):
        start_daemon().cycle()
    slurm.deaf_after, slurm.away = None, False
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert open_nodes(daemon) == sizes(slurm, array)
    assert {fragment.state for fragment in daemon.ledger.open_fragments()} == {FragmentState.RUNNING}
    run_out(slurm, daemon, array)
    assert completed_runs(slurm, array) == each_once(array, 5)


def test_a_daemon_without_a_database_finds_all_nodes_of_its_tasks(
    slurm: FakeSlurm, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    array = slurm.submit_array(TAG, tasks=5)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    begun = sizes(slurm, array)
    for file in tmp_path.glob("freetrain.db*"):
        file.unlink()
    other = start_daemon()
    other.cycle()
    assert open_nodes(other) == begun
    assert sizes(slurm, array) == begun


def test_what_slurm_is_told_of_a_task(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=3", tasks=1)
    start_daemon().cycle()
    (update,) = [command for command in slurm.told if command[:3] == ("scontrol", "update", f"JobId={array}_0")]
    values = dict(word.split("=", 1) for word in update[3:])
    assert len(values["ReqNodeList"].split(",")) == 3
    assert (values["NumNodes"], values["NumTasks"]) == ("3-3", "3")


def test_a_task_that_needs_more_nodes_than_there_are_waits_and_says_so(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=9-12", tasks=2)
    slurm.submit(nodes=5)
    other = slurm.submit_array("freetrain:kind=tasks,nodes=4", tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    assert daemon.waits_for == {
        array: "each of its tasks needs 9 nodes at once; there are 8 for it",
        other: "needs 4 nodes at once; 3 are idle or lent",
    }


def test_a_filler_whose_tasks_are_larger_than_the_partition_allows_rests_and_keeps_no_node(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=6", tasks=1)
    slurm.stuck = True
    daemon = start_daemon()
    daemon.cycle()
    task = slurm.jobs[f"{array}_0"]
    slurm.jobs[task.id] = waiting(task, "PartitionNodeLimit")
    daemon.cycle(after_s=200.0)
    assert "does not start its fragments (PartitionNodeLimit)" in daemon.ledger.trainers()[array].note
    daemon.cycle()
    assert not any(fragment.goes_on for fragment in daemon.cluster.books.open)
    assert slurm.jobs[task.id].is_held


def test_wrong_sizes_are_answered(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    wrong = {
        "nodes=0": "is not a number of nodes",
        "nodes=8-2": "has a minimum above its maximum",
        "nodes=2-8,max=1": "nodes=2 of each task is more than max=1",
    }
    refused = {slurm.submit_array(f"freetrain:kind=tasks,{keys}"): why for keys, why in wrong.items()}
    training = slurm.submit_array("freetrain:nodes=2-8")
    daemon = start_daemon()
    daemon.cycle()
    for array, why in refused.items():
        assert why in slurm.jobs[f"{array}_0"].comment
        assert state_of(daemon, array) is TrainerState.REFUSED
    assert "nodes is for kind=tasks only" in slurm.jobs[f"{training}_0"].comment


def test_tasks_that_fail_have_had_their_turn_and_free_all_of_their_nodes(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=3)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    slurm.advance(AT_ONCE_S)
    begun = finish_all(slurm, array, JobState.FAILED)
    daemon.cycle()
    run_out(slurm, daemon, array)
    assert daemon.cluster.books.runs[array].ends == {
        End.FAILED: len(begun),
        **({End.COMPLETED: 3 - len(begun)} if len(begun) < 3 else {}),
    }


def test_a_bad_node_costs_an_array_of_tasks_of_several_nodes_none_of_them(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:kind=tasks,nodes=2", tasks=20)
    daemon = start_daemon()
    for _ in range(100):
        daemon.cycle()
        for job in [job for job in slurm.jobs.values() if job.array == array and job.state is JobState.RUNNING]:
            if "n1" in job.nodes:
                slurm.finish(job.id, JobState.FAILED)
            elif slurm.now_s - (job.start_s or 0.0) > AT_ONCE_S:
                slurm.finish(job.id)
        if state_of(daemon, array) is TrainerState.COMPLETE:
            break
    assert completed_runs(slurm, array) == each_once(array, 20)
    failed = [fragment for fragment in daemon.ledger.fragments(0.0) if fragment.end is End.FAILED]
    assert 0 < len(failed) <= 12, "two nodes of each task; the pair rests longer each time"
    assert {pair[0] for pair in daemon.judgement.memory.suspects.pairs} <= {array}, "what was submitted is meant"
