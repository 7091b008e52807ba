"""Arrays and nodes that are at fault, on a real Slurm: whoever shares the nodes with them loses nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from benchmarks.live.site import TRAINER, Site
from benchmarks.live.workload import SiteJob
from freetrain.core.fragment import End
from freetrain.lab import LabOptions
from freetrain.store.store import Store
from tests.daemon.on_slurm.site import (
    POLL_S,
    daemon_that_polls_every,
    lent,
    nodes_of,
    site_of,
    states_of,
    wait_until,
)

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NODES = 6


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    more = {"MaxArraySize": "5001", "MaxJobCount": "20000", "JobRequeue": "0"}
    with site_of(LabOptions(nodes=NODES, accounting=True), more) as site:
        yield site


@pytest.fixture
def daemon(site: Site) -> Iterator[Site]:
    with daemon_that_polls_every(POLL_S, site, NODES):
        yield site


def told_of(site: Site, job: str) -> str:
    """What a training's owner reads of it."""
    ran = site.freetrain("alice", "explain", job, "--json")
    return " ".join(json.loads(ran.stdout)["sentences"]) if ran.returncode == 0 else ran.stderr


def plain_array(site: Site, tasks: int, tag: str, *options: str, script: str = TRAINER) -> str:
    """An array with a tag that comes in without freetrain's help: neither held nor requeued."""
    return site.run(
        "alice", "sbatch", "--parsable", f"--array=0-{tasks - 1}", "-N1", "-p", "freetrain",
        f"--comment=freetrain:{tag}", "-o", "/dev/null", *options, stdin=script,
    )  # fmt: skip


def test_what_an_array_waits_for_is_heeded_and_costs_the_others_no_node(daemon: Site) -> None:
    innocent = daemon.submit_trainer("bob", NODES, "min=1")
    wait_until(lambda: lent(daemon, innocent) == NODES, 60, daemon)
    blocker = daemon.run("alice", "sbatch", "--parsable", "--hold", "-p", "main", "--wrap", "true")
    waits_for = {
        daemon.submit_trainer("alice", NODES, "min=1", TRAINER, f"--dependency=afterok:{blocker}"): "dependency",
        plain_array(daemon, NODES, "min=1", "--begin=now+1hour"): "lets it begin later",
    }
    until_s = time.monotonic() + 6 * POLL_S
    while time.monotonic() < until_s:
        assert lent(daemon, innocent) == NODES
        time.sleep(0.5)
    for array, why in waits_for.items():
        wait_until(lambda array=array, why=why: why in told_of(daemon, array), 30, daemon)  # type: ignore[misc]
        assert nodes_of(daemon, array) == []


def test_tasks_that_slurm_would_cancel_are_requeued_and_one_that_may_run_alone_does(daemon: Site) -> None:
    alone = daemon.submit_trainer("alice", 4, "min=1", TRAINER, "--array=0-3%1")
    array = plain_array(daemon, NODES, "min=1", "--no-requeue")
    wait_until(lambda: (lent(daemon, alone), lent(daemon, array)) == (1, NODES - 1), 60, daemon)
    job = daemon.submit(SiteJob(0.0, NODES, 5.0, 5))
    wait_until(lambda: daemon.run("bob", "squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", 60, daemon)
    wait_until(lambda: (lent(daemon, alone), lent(daemon, array)) == (1, NODES - 1), 60, daemon)
    assert set(states_of(daemon, array)) <= {"RUNNING", "PENDING"}, "no task is lost"


def test_an_owner_who_releases_5000_tasks_costs_nobody_a_look(daemon: Site) -> None:
    array = daemon.submit_trainer("alice", 5000, "min=1,max=2")
    innocent = daemon.submit_trainer("bob", NODES, "min=1")
    wait_until(lambda: lent(daemon, array, innocent) == NODES, 60, daemon)
    daemon.run("alice", "scontrol", "release", array)
    wait_until(
        lambda: daemon.run("bob", "squeue", "-h", "-t", "PD", "-j", array, "-o", "%r") == "JobHeldUser", 30, daemon
    )
    assert "does not answer" not in daemon.daemon_says
    assert lent(daemon, array, innocent) == NODES
    assert len(daemon.freetrain("bob", "status").stdout) < 2000


@pytest.mark.soak
def test_a_bad_node_costs_a_filler_no_task(daemon: Site) -> None:
    bad = "n002"
    program = f'#!/bin/bash\n[ "$SLURMD_NODENAME" = {bad} ] && exit 1\nexec srun --quiet sleep 3\n'
    filler = daemon.submit_trainer("alice", 40, "kind=tasks", program)
    runs = ("sacct", "-X", "-n", "-P", "-j", filler, "-s", "COMPLETED", "-o", "JobID")
    wait_until(lambda: len(set(daemon.run("root", *runs).split())) == 40, 120, daemon)
    ledger = Store.open_existing(daemon.directory / "state" / "freetrain.db").ledger()
    failed = [fragment.node for fragment in ledger.fragments(0.0) if fragment.end is End.FAILED]
    assert failed, "the bad node was tried"
    assert set(failed) == {bad}
    assert len(failed) <= 6
