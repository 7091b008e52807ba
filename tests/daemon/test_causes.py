"""Whose fault it is that nothing runs: one user's array, one node or one training never costs the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from freetrain.core.job import JobState
from freetrain.core.known_trainer import TrainerState
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmUnreachableError
from freetrain.slurm.preconditions import PRECONDITIONS, Unmet
from tests.daemon.conftest import StartDaemon
from tests.daemon.fake_slurm import NODES, FakeSlurm, waiting

TRAINING = "freetrain:min=1,max=8"
TASKS = "freetrain:kind=tasks"

HELD_UP: dict[str, Callable[[FakeSlurm, str], None]] = {
    "a job it depends on": lambda slurm, array: change(slurm, array, dependency="afterok:7(unfulfilled)"),
    "its owner's other jobs": lambda slurm, array: change(slurm, array, dependency="singleton(unfulfilled)"),
    "its time to begin": lambda slurm, array: slurm.asked[array].update(
        EligibleTime=str(int(slurm.now_s + 3600)), State="PENDING"
    ),
    "a licence": lambda slurm, array: slurm.reasons.update({array: "Licenses"}),
    "a dependency that Slurm hid": lambda slurm, array: slurm.reasons.update({array: "Dependency"}),
    "a limit of its account": lambda slurm, array: slurm.reasons.update({array: "AssocGrpCpuLimit"}),
    "something new": lambda slurm, array: slurm.reasons.update({array: "WaitsForTheMoon"}),
}


def change(slurm: FakeSlurm, array: str, **facts: object) -> None:
    """Slurm shows this of all tasks of an array from now on."""
    for id_, job in slurm.jobs.items():
        if job.array == array:
            slurm.jobs[id_] = replace(job, **facts)  # type: ignore[arg-type]


def held_up_array(slurm: FakeSlurm, why: str, user: str = "news") -> str:
    array = slurm.submit_array(TRAINING, tasks=8, user=user)
    HELD_UP[why](slurm, array)
    return array


@pytest.mark.parametrize("why", HELD_UP)
def test_an_array_that_waits_for_something_of_its_own_costs_nobody_else_a_node(
    slurm: FakeSlurm, start_daemon: StartDaemon, why: str
) -> None:
    innocent = slurm.submit_array(TRAINING, tasks=8, user="games")
    daemon = start_daemon()
    daemon.cycle()
    assert len(slurm.running(innocent)) == len(NODES)
    held_up_array(slurm, why)
    sizes = []
    for _ in range(60):
        daemon.cycle()
        sizes.append(len(slurm.running(innocent)))
    disturbed = sum(size < len(NODES) for size in sizes)
    known_beforehand = why in list(HELD_UP)[:3]
    assert disturbed == 0 if known_beforehand else disturbed <= 12, sizes
    assert len(slurm.running(innocent)) == len(NODES)


@pytest.mark.parametrize("why", HELD_UP)
def test_its_owner_reads_what_it_waits_for(slurm: FakeSlurm, start_daemon: StartDaemon, why: str) -> None:
    array = held_up_array(slurm, why)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    told = daemon.waits_for.get(array, "") or daemon.ledger.trainers()[array].note
    expected = {
        "a job it depends on": "dependency afterok:7(unfulfilled)",
        "its owner's other jobs": "dependency singleton(unfulfilled)",
        "its time to begin": "its owner lets it begin later (--begin), in 60 min",
        "a licence": "Licenses",
        "a dependency that Slurm hid": "Dependency",
        "a limit of its account": "AssocGrpCpuLimit",
        "something new": "WaitsForTheMoon",
    }
    assert expected[why] in told
    assert slurm.running(array) == []


def test_it_gets_nodes_as_soon_as_nothing_keeps_it(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = held_up_array(slurm, "a job it depends on")
    daemon = start_daemon()
    daemon.cycle()
    change(slurm, array, dependency="")
    daemon.cycle()
    assert len(slurm.running(array)) == len(NODES)


def test_an_array_gets_no_more_nodes_than_its_owner_lets_run_at_once(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    change(slurm, array, max_running=2)
    daemon = start_daemon()
    for _ in range(4):
        daemon.cycle()
        assert len(slurm.running(array)) == 2


OF_EVERY_NODE = PRECONDITIONS[1:]
"""All but the one that only counts where nodes are lent in parts: see ``test_moldable.py``."""
WAYS_IN = {"held": True, "plain sbatch": False}


@pytest.mark.parametrize("held", WAYS_IN.values(), ids=WAYS_IN)
@pytest.mark.parametrize("precondition", OF_EVERY_NODE, ids=lambda one: one.name)
def test_each_precondition_is_heeded_whichever_way_an_array_comes_in(
    slurm: FakeSlurm, start_daemon: StartDaemon, precondition: object, held: bool
) -> None:
    name = precondition.name  # type: ignore[attr-defined]
    array = slurm.submit_array(
        "freetrain:min=2", tasks=1 if name == "tasks for its minimum of nodes" else 4, held=held
    )
    match name:
        case "one node for each task":
            change(slurm, array, node_count=2)
        case "tasks at once for its minimum of nodes":
            change(slurm, array, max_running=1)
        case "requeued when preempted":
            slurm.asked[array] = {"Requeue": "0"}
        case "no other job to wait for":
            change(slurm, array, dependency="afterok:7")
        case "time to begin":
            slurm.asked[array] = {"EligibleTime": str(int(slurm.now_s + 100))}
            change(slurm, array, waits_for="time", reason="BeginTime")
    slurm.stuck = True  # else an array that nobody holds begins before the daemon has seen it
    daemon = start_daemon()
    daemon.cycle()
    slurm.stuck = False
    assert slurm.running(array) == []
    if precondition.then is Unmet.REFUSED:  # type: ignore[attr-defined]
        assert daemon.ledger.trainers()[array].state is TrainerState.REFUSED
    elif precondition.then is Unmet.PUT_RIGHT:  # type: ignore[attr-defined]
        assert slurm.asked[array]["Requeue"] == "1"
        daemon.cycle()
        assert len(slurm.running(array)) == 4
    else:
        assert daemon.waits_for[array]


def fails_on(slurm: FakeSlurm, bad: set[str]) -> None:
    """Every program that has begun on one of these nodes has ended with an error by now."""
    for job in list(slurm.jobs.values()):
        if job.state is JobState.RUNNING and job.nodes & bad and slurm.queue.has(job):
            slurm.finish(job.id, JobState.FAILED)


@pytest.mark.parametrize("slurm", [[f"n{number}" for number in range(1, 17)]], indirect=True)
def test_bad_nodes_cost_no_task_of_a_filler_and_no_training_its_nodes(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    bad = {"n1", "n2", "n3"}
    filler = slurm.submit_array(TASKS, tasks=200, user="alice")
    trainings = [slurm.submit_array(TRAINING, tasks=8, user=user) for user in ("bob", "carol")]
    daemon = start_daemon()
    for _ in range(400):
        daemon.cycle()
        fails_on(slurm, bad)
        tasks = [job for job in slurm.jobs.values() if job.array == filler and job.state is JobState.RUNNING]
        for job in tasks:
            if slurm.now_s - (job.start_s or 0.0) >= 40:
                slurm.finish(job.id)
        if all(job.state is JobState.COMPLETED for job in slurm.jobs.values() if job.array == filler):
            break
    states = [job.state for job in slurm.jobs.values() if job.array == filler]
    assert states.count(JobState.COMPLETED) == 200
    for training in trainings:
        assert daemon.ledger.trainers()[training].state in (TrainerState.ACTIVE, TrainerState.RESTING)
    failed = [fragment for fragment in daemon.ledger.fragments(0.0) if fragment.end == "failed"]
    assert {fragment.node for fragment in failed} <= bad
    assert len(failed) <= 30, "a node that fails everybody is left alone, longer each time"


def test_a_task_that_fails_everywhere_is_tried_twice_and_no_more(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TASKS, tasks=1)
    daemon = start_daemon()
    ran_on = []
    for _ in range(10):
        daemon.cycle()
        ran_on += slurm.running(array)
        fails_on(slurm, set(NODES))
    assert len(ran_on) == len(set(ran_on)) == 2, "the second time elsewhere"
    assert daemon.ledger.trainers()[array].state is TrainerState.COMPLETE


def test_a_task_that_came_unheld_and_failed_before_the_first_look_is_tried_again(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TASKS, tasks=2, held=False)
    slurm.start_what_can()
    slurm.advance(1.0)
    fails_on(slurm, set(NODES))
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 2


def test_a_training_whose_own_program_is_wrong_keeps_no_node_from_others(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    for user in ("news", "games"):
        slurm.submit_array(TRAINING, tasks=8, user=user)
    daemon = start_daemon()
    for _ in range(20):
        daemon.cycle(after_s=60.0)
        fails_on(slurm, set(NODES))
    assert daemon.judgement.memory.suspects.nodes == {}
    honest = slurm.submit_array(TRAINING, tasks=8, user="honest")
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(honest)) == len(NODES)


def test_orders_for_one_owner_that_slurm_does_not_answer_cost_the_others_no_look(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = slurm.submit_array("freetrain:min=1,max=2", tasks=200, user="news")
    daemon = start_daemon()
    daemon.cycle()
    perform = slurm.perform

    def perform_others(command: Command, stdin: str = "") -> str:
        if command[:2] == ("scontrol", "uhold") and f"{released}_" in command[2]:
            raise SlurmUnreachableError("Slurm does not answer scontrol uhold within 30 s.")
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", perform_others)
    slurm.reasons[released] = "Priority"
    for id_, job in slurm.jobs.items():
        if job.state is JobState.PENDING:
            slurm.jobs[id_] = waiting(job, "Priority", priority=1)
    innocent = slurm.submit_array(TRAINING, tasks=8, user="games")
    for _ in range(4):
        daemon.cycle()
    assert len(slurm.running(innocent)) == 6


def test_a_released_array_is_held_by_one_order_that_names_all_of_what_waits(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1,max=2", tasks=1000)
    daemon = start_daemon()
    daemon.cycle()
    slurm.told.clear()
    slurm.stuck = True
    slurm.perform(("scontrol", "release", f"{array}_[2-999]"))
    daemon.cycle()
    held = [command for command in slurm.told if command[1] == "uhold"]
    assert held == [("scontrol", "uhold", f"{array}_[2-999]")]


def test_two_owners_whose_orders_fail_at_the_same_look_mean_that_slurm_is_silent_and_then_both_wait(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("news", "games"):
        slurm.submit_array("freetrain:nonsense=1", tasks=2, user=user)
    innocent = slurm.submit_array(TRAINING, tasks=8, user="carol")
    perform = slurm.perform

    def perform_others(command: Command, stdin: str = "") -> str:
        if command[:2] == ("scontrol", "update") and command[-1].startswith("Comment="):
            raise SlurmUnreachableError("Slurm does not answer scontrol update within 30 s.")
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", perform_others)
    daemon = start_daemon()
    with pytest.raises(SlurmUnreachableError):
        daemon.cycle()
    assert slurm.running(innocent) == []
    daemon.cycle()
    assert len(slurm.running(innocent)) == len(NODES), "the look after it goes on without them"
