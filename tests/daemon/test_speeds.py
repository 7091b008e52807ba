"""How fast trainings are on which nodes, as the daemon learns it from their progress."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.throughput import Observation
from freetrain.daemon.trainers.kinds import believed_speeds, seen_at_speed_1
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.lending.facts import Request, SiteOrders
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

TAG = "freetrain:max=2,speed=a100:1/v100:0.4,curve=1:100/2:200"


@pytest.fixture
def slurm() -> FakeSlurm:
    """Two nodes with a100, two with v100."""
    slurm = FakeSlurm(["n1", "n2", "n3", "n4"])
    kinds = {"n1": "a100", "n2": "a100", "n3": "v100", "n4": "v100"}
    slurm.nodes |= {name: replace(slurm.nodes[name], features=frozenset({kind})) for name, kind in kinds.items()}
    return slurm


def report(slurm: FakeSlurm, rate: float, offset: int, ago_s: float = 1.0) -> Report:
    """Ten lines on two nodes that began so long ago."""
    line = Observation(2, rate, 5.0, began_s=slurm.now_s - ago_s)
    return Report(False, 1000.0, (line,) * 10, offset)


def request(daemon: Daemon, array: str) -> Request:
    return next(request for request in daemon.judgement.facts.requests if request.id == array)


def move_to_v100(slurm: FakeSlurm, daemon: Daemon, array: str) -> None:
    """The site takes the nodes with a100."""
    drained = {"n1": "drained by the site", "n2": "drained by the site"}
    for _ in range(4):
        daemon.cycle(orders=SiteOrders(kept_off={"drained": drained}))
    assert slurm.running(array) == ["n3", "n4"]


def test_speeds_are_learned_from_what_was_seen_on_each_kind(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert slurm.running(array) == ["n1", "n2"]
    assert dict(request(daemon, array).speeds) == {"a100": 1.0, "v100": 0.4}
    daemon.cycle({array: report(slurm, 200.0, 10)})
    move_to_v100(slurm, daemon, array)
    daemon.cycle({array: report(slurm, 20.0, 20)}, orders=SiteOrders(kept_off={"drained": {"n1": "x", "n2": "x"}}))
    daemon.cycle(orders=SiteOrders(kept_off={"drained": {"n1": "x", "n2": "x"}}))
    assert dict(request(daemon, array).speeds) == {"a100": 1.0, "v100": 0.11}
    assert request(daemon, array).trainer.rate(2) == pytest.approx(190, rel=0.1), "its curve is that at speed 1"
    again = start_daemon()
    again.cycle()
    assert dict(request(again, array).speeds) == {"a100": 1.0, "v100": 0.11}, "kept over a restart"
    (entry,) = again.cluster.registered.trainings
    assert entry.tag is not None
    assert seen_at_speed_1(entry.trainer, entry.tag) == {2: pytest.approx(190, rel=0.1)}


def test_what_was_seen_before_its_nodes_were_lent_is_not_counted(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(TAG, tasks=2)
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    daemon.cycle({array: report(slurm, 1.0, 10, ago_s=1e6)})
    (entry,) = daemon.cluster.registered.trainings
    assert entry.trainer.observations == ()
    assert entry.tag is not None
    assert believed_speeds(entry.trainer, entry.tag) == {"a100": 1.0, "v100": 0.4}


def test_a_training_that_names_no_speeds_is_read_as_before(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:max=2", tasks=2)
    daemon = start_daemon()
    daemon.cycle({array: report(slurm, 50.0, 10, ago_s=1e6)})
    (entry,) = daemon.cluster.registered.trainings
    assert entry.trainer.observations == (Observation(2, 50.0, 5.0),) * 10
