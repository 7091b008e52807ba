"""Jobs of the site's that Slurm plans for the end of fragments: a partition of theirs is on the same tier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.fragment import End
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import NODES, FakeSlurm


@pytest.fixture
def lent(slurm: FakeSlurm, start_daemon: StartDaemon) -> tuple[str, Daemon]:
    """An array that has all nodes, four of which a partition shares that cannot preempt it."""
    slurm.partitions["debug"] = Partition("debug", frozenset(NODES[:4]))
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 8
    return array, daemon


def plan(slurm: FakeSlurm, number: str, *nodes: str) -> None:
    """A job that waits in debug until the fragments on these nodes reach their limit."""
    ends_s = [
        (job.start_s or 0) + job.limit_s
        for job in slurm.jobs.values()
        if job.state is JobState.RUNNING and job.nodes & set(nodes)
    ]
    slurm.jobs[number] = Job(
        number, number, "games", "debug", JobState.PENDING, node_count=len(nodes),
        submitted_s=slurm.now_s - 90, start_s=max(ends_s), planned_nodes=frozenset(nodes), limit_s=600.0,
    )  # fmt: skip


def start(slurm: FakeSlurm, number: str) -> None:
    job = slurm.jobs[number]
    slurm.jobs[number] = replace(
        job, state=JobState.RUNNING, nodes=job.planned_nodes, planned_nodes=frozenset(), start_s=slurm.now_s
    )


def test_its_nodes_are_given_back_at_the_look_that_finds_it_and_kept_until_it_starts(
    slurm: FakeSlurm, lent: tuple[str, Daemon], caplog: pytest.LogCaptureFixture
) -> None:
    array, daemon = lent
    plan(slurm, "1", "n1", "n2")
    daemon.cycle()
    assert slurm.running(array) == list(NODES[2:])
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {}, "they are leaving"
    assert "job 1 of partition debug would wait for fragments on n[1-2]" in caplog.text
    daemon.cycle()
    assert slurm.running(array) == list(NODES[2:])
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {End.RELEASED: 2}
    start(slurm, "1")
    daemon.cycle()
    slurm.finish("1")
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 8, "once may be chance"
    assert caplog.text.count("would wait for fragments") == 1


def test_its_whole_wait_is_counted_as_harm(slurm: FakeSlurm, lent: tuple[str, Daemon]) -> None:
    _, daemon = lent
    daemon.cycle(after_s=200)
    plan(slurm, "1", "n1", "n2")
    daemon.cycle()
    daemon.cycle()
    start(slurm, "1")
    daemon.cycle()
    (harm,) = daemon.ledger.harms()
    assert harm.job == "1"
    assert harm.delay_s >= 95, "since it was submitted, not since the daemon noticed"


def test_after_the_second_time_nothing_is_lent_in_that_partition_until_somebody_looks(
    slurm: FakeSlurm, lent: tuple[str, Daemon], caplog: pytest.LogCaptureFixture
) -> None:
    array, daemon = lent
    for number in ("1", "2"):
        plan(slurm, number, "n1", "n2")
        daemon.cycle()
        start(slurm, number)
        slurm.finish(number)
        daemon.cycle()
        daemon.cycle()
    assert slurm.running(array) == list(NODES[4:])
    assert "nothing more is lent on nodes of partition debug" in caplog.text
    daemon.cycle(after_s=4000)
    assert slurm.running(array) == list(NODES[4:])
    daemon.loop.forget_blocked()
    daemon.cycle()
    assert len(slurm.running(array)) == 8


def test_many_jobs_that_wait_at_one_look_are_one_time(slurm: FakeSlurm, lent: tuple[str, Daemon]) -> None:
    array, daemon = lent
    for number, node in (("1", "n1"), ("2", "n2"), ("3", "n3")):
        plan(slurm, number, node)
    daemon.cycle()
    assert slurm.running(array) == list(NODES[3:])
    for number in ("1", "2", "3"):
        slurm.forget(number)
    daemon.cycle()
    daemon.cycle()
    assert len(slurm.running(array)) == 8


@pytest.mark.parametrize(("age_s", "blocked"), [(0.0, set()), (300.0, {"1"})])
def test_who_waits_while_fragments_are_exempt_from_preemption_is_no_sign_of_a_bad_layout(
    slurm: FakeSlurm, lent: tuple[str, Daemon], age_s: float, blocked: set[str]
) -> None:
    array, daemon = lent
    slurm.now_s += age_s
    plan(slurm, "1", "n1", "n2")
    daemon.cycle(exempt_s=60.0)
    assert daemon.judgement.memory.blocked.jobs == blocked
    assert slurm.running(array) == list(NODES[2:]), "the nodes are given back all the same"
