"""Servers of trainings: decided, told in the comment of their tasks, and moved."""

from __future__ import annotations

import pytest

from freetrain.daemon.executor import Mode
from freetrain.slurm.comments import servers_on
from freetrain.slurm.errors import SlurmRefusedError
from tests.daemon.conftest import StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

SERVED = "freetrain:min=1,servers=2,curve=1:100/2:190/4:360"


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm([f"n{number}" for number in range(1, 5)])


def told(slurm: FakeSlurm, array: str) -> set[tuple[str, ...]]:
    """What the comments of its open tasks say."""
    tasks = [job for job in slurm.jobs.values() if job.array == array and not job.state.is_final]
    return {servers_on(task.comment) for task in tasks}


def orders_about_servers(slurm: FakeSlurm) -> int:
    return sum("servers on" in word for command in slurm.told for word in command)


def test_all_tasks_of_a_training_are_told_where_its_server_runs_and_are_told_once(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array, other = slurm.submit_array(SERVED), slurm.submit_array("freetrain:max=1")
    daemon = start_daemon()
    decision = daemon.cycle()
    (node,) = decision.serving[array]
    assert node in decision.placement[array]
    for _ in range(3):
        assert daemon.cycle().serving == {array: (node,)}
    assert told(slurm, array) == {(node,)}
    assert told(slurm, other) == {()}
    assert orders_about_servers(slurm) == 1


def test_a_server_is_told_to_move_when_the_site_takes_its_node(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(SERVED)
    daemon = start_daemon()
    daemon.cycle()
    ((node,),) = told(slurm, array)
    taken = slurm.submit(nodes=1)
    daemon.cycle()
    daemon.cycle()
    (lost,) = slurm.jobs[taken].nodes
    while lost != node:  # the site takes one after the other
        taken = slurm.submit(nodes=1)
        daemon.cycle()
        (lost,) = slurm.jobs[taken].nodes
    daemon.cycle()
    left = slurm.running(array)
    assert node not in left
    assert told(slurm, array) == {(min(left),) if len(left) > 1 else ()}


def test_a_new_daemon_reads_in_the_comments_where_servers_are(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array(SERVED)
    daemon = start_daemon()
    daemon.cycle()
    slurm._comment(array, f"{SERVED} | servers on n3")  # as another daemon may have done
    assert start_daemon().cycle().serving == {array: ("n3",)}
    assert told(slurm, array) == {("n3",)}


def test_on_a_single_node_there_is_no_server(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:max=1,servers=2")
    assert start_daemon().cycle().serving == {}
    assert told(slurm, array) == {()}


def test_what_an_owner_writes_there_moves_his_own_servers_only(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(f"{SERVED} | servers on n1,n9,$(reboot),,")
    other = slurm.submit_array("freetrain:max=2", user="games")
    daemon = start_daemon()
    decision = daemon.cycle()
    assert set(decision.serving.get(other, ())) == set()
    daemon.cycle()
    ((node,),) = told(slurm, array)
    assert node in slurm.running(array)


def test_who_observes_tells_nothing(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array(SERVED)
    daemon = start_daemon(mode=Mode.OBSERVE)
    assert daemon.cycle().serving
    assert told(slurm, array) == {()}


def test_what_slurm_does_not_take_is_told_again_after_a_minute_and_not_at_each_look(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(array: str, comment: str) -> None:
        raise SlurmRefusedError("Access/permission denied")

    monkeypatch.setattr(slurm, "_comment", refuse)
    slurm.submit_array(SERVED)
    daemon = start_daemon()
    for _ in range(5):
        daemon.cycle()
    assert orders_about_servers(slurm) == 1
    daemon.cycle(after_s=60.0)
    assert orders_about_servers(slurm) == 2
