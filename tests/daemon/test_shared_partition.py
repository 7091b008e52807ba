"""Fragments in the site's own partition: only their QOS tells them from its jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.big_site import named_in
from freetrain.cli.orders import cancel_orders, panic_orders
from freetrain.config import Config, Slurm
from freetrain.core.fragment import End
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import JobState
from freetrain.slurm.steering import Steering
from freetrain.slurm.submissions import find_submissions
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import NODES, FakeSlurm

QUEUE = FragmentQueue("main", "spare")
CONFIG = Config(slurm=Slurm(partition="main", qos="spare"))


@pytest.fixture
def slurm() -> FakeSlurm:
    slurm = FakeSlurm(queue=QUEUE)
    del slurm.partitions["freetrain"]
    return slurm


@pytest.fixture
def lent(slurm: FakeSlurm, start_daemon: StartDaemon) -> tuple[str, Daemon]:
    """An array that has all nodes."""
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert slurm.running(array) == list(NODES)
    return array, daemon


def test_a_job_of_the_sites_is_given_its_nodes_before_slurm_takes_them(
    slurm: FakeSlurm, lent: tuple[str, Daemon]
) -> None:
    array, daemon = lent
    slurm.is_between_cycles = True
    job = slurm.submit(3)
    daemon.cycle()
    assert len(slurm.running(array)) == 5
    slurm.is_between_cycles = False
    daemon.cycle()
    assert slurm.jobs[job].state is JobState.RUNNING
    assert daemon.ledger.ends_by_trainer([array])[array] == {End.RELEASED: 3}


def test_a_node_that_a_job_of_the_sites_has_is_not_lent(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    job = slurm.submit(2)
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 6
    assert daemon.judgement.offers.withheld["n1"] == f"job {job} runs here"


def test_a_tag_counts_with_the_qos_of_fragments_only(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1", tasks=2)
    for id_, job in slurm.jobs.items():
        slurm.jobs[id_] = replace(job, qos="normal")
    daemon = start_daemon()
    daemon.cycle()
    assert slurm.running(array) == []
    assert daemon.cluster.registered.trainings == ()


def test_panic_and_cancel_leave_the_sites_jobs_alone(slurm: FakeSlurm, lent: tuple[str, Daemon]) -> None:
    array, _ = lent
    tagged = slurm.submit(1, comment="freetrain:min=1")
    snapshot = slurm.snapshot()
    told = [word for order in panic_orders(snapshot, CONFIG, Steering()) for word in order]
    named = [job for words in told for job in named_in(words)]
    assert f"{array}_7" in named
    assert tagged not in named
    (submission,) = find_submissions(snapshot.jobs, QUEUE).values()
    assert cancel_orders(submission, snapshot, CONFIG, Steering()) == [("scancel", array)]


def test_settings_name_the_queue() -> None:
    assert CONFIG.slurm.queue == QUEUE
    assert Config().slurm.queue == FragmentQueue("freetrain")
    assert Path(CONFIG.state.directory).is_absolute()
