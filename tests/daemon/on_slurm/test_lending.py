"""Idle nodes of a real Slurm are lent, and are free when the site wants them."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import (
    NODES,
    POLL_S,
    daemon_that_polls_every,
    in_slurm,
    in_the_ledger,
    ledger_ends,
    lent,
    nodes_of,
    settled,
    site_of,
    states_of,
    submit_three,
    wait_until,
)
from tests.needed import several_people

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

ORDINARY = """#!/bin/bash
sleep 1
while [ $SLURM_ARRAY_TASK_ID -ge 8 ] && [ ! -e {out}/go-on ]; do sleep 0.2; done
echo ran >> {out}/task-$SLURM_ARRAY_TASK_ID
"""
DONE = """#!/bin/bash
srun --quiet bash -c 'trap "exit 0" TERM; while [ ! -e {flag} ]; do sleep 0.2; done'
"""


def test_trainers_grow_into_idle_nodes_and_shrink_for_others_and_for_the_site(daemon: Site) -> None:
    first = daemon.submit_trainer("alice", NODES, "min=1")
    wait_until(lambda: lent(daemon, first) == NODES, POLL_S + 10, daemon)
    trainers = [first, daemon.submit_trainer("bob", NODES, "min=1")]
    wait_until(lambda: settled(daemon, *trainers), 4 * POLL_S + 10, daemon)

    daemon.signal_daemon(signal.SIGSTOP)  # or it might have given the nodes back before Slurm took them
    try:
        job = daemon.submit(SiteJob(0, 6, 3600, 60))
        wait_until(lambda: job in daemon.started_s(), 5, daemon)
    finally:
        daemon.signal_daemon(signal.SIGCONT)
    wait_until(lambda: lent(daemon, *trainers) == NODES - 6, 10, daemon)
    daemon.run("bob", "scancel", job)
    wait_until(lambda: settled(daemon, *trainers), 30, daemon)
    ends = {str(end) for trainer in trainers for end in ledger_ends(daemon, trainer)}
    assert {"preempted", "released"} <= ends


def ends_of_lent(site: Site, nodes: set[str]) -> list[float | None]:
    """When the holes of those of the nodes end that are lent, as the daemon says."""
    shown = json.loads(site.freetrain("daemon", "nodes", "--json").stdout)["nodes"]
    return [group["until"] for group in shown if nodes & set(group["nodes"]) and group["state"] == "lent"]


@pytest.mark.soak
def test_nodes_are_empty_before_a_maintenance_begins(site: Site) -> None:
    margin_s = 60  # which is also what a busy machine may be late by
    with daemon_that_polls_every(POLL_S, site, margin_s=margin_s):
        trainers = submit_three(site)
        wait_until(lambda: settled(site, *trainers), 4 * POLL_S + 20, site)
        begin_s = int(time.time()) + margin_s + 25
        start = time.strftime("starttime=%Y-%m-%dT%H:%M:%S", time.gmtime(begin_s))
        admin = subprocess.run(
            ["scontrol", "create", "reservation=m", start, "duration=5", "nodes=n[001-004]", "users=root",
             "flags=maint,ignore_jobs"],
            env=site.environment, capture_output=True, text=True,
        )  # fmt: skip
        assert admin.returncode == 0, admin.stderr
        reserved = {"n001", "n002", "n003", "n004"}
        wait_until(lambda: all(ends_of_lent(site, reserved)), 15, site)
        wait_until(lambda: not reserved & set(in_slurm(site).values()), 45, site)
        assert time.time() < begin_s, "the nodes were not empty before the maintenance began"
        subprocess.run(["scontrol", "delete", "reservation=m"], env=site.environment, check=True)
        wait_until(lambda: settled(site, *trainers), 30, site)


def test_when_a_trainer_completes_the_others_grow(daemon: Site) -> None:
    flag = daemon.out / "all-is-trained"
    first = daemon.submit_trainer("alice", 8, "min=1,name=short", DONE.format(flag=flag))
    second = daemon.submit_trainer("bob", NODES, "min=1")
    wait_until(lambda: settled(daemon, first, second), 40, daemon)
    flag.touch()
    wait_until(lambda: lent(daemon, second) == NODES, 30, daemon)
    wait_until(lambda: "complete" in daemon.daemon_says, 10, daemon)


def test_of_an_ordinary_array_every_task_runs_once_and_none_is_cancelled(daemon: Site) -> None:
    array = daemon.submit_trainer("alice", 12, "min=2,max=4", ORDINARY.format(out=daemon.out))
    ran = lambda: {path.name: path.read_text() for path in daemon.out.glob("task-*")}  # noqa: E731
    wait_until(lambda: len(ran()) > 4, 60, daemon)
    wait_until(lambda: "its end is unknown" in daemon.freetrain("alice", "jobs").stdout, 30, daemon)
    (daemon.out / "go-on").touch()
    wait_until(lambda: len(ran()) == 12, 120, daemon)
    wait_until(
        lambda: f"trainer {array} of" in daemon.daemon_says and "complete" in daemon.daemon_says, 30, daemon
    )
    time.sleep(2 * POLL_S)
    assert set(ran().values()) == {"ran\n"}, "each exactly once"
    assert set(states_of(daemon, array)) == {"COMPLETED"}
    assert set(ledger_ends(daemon, array)) == {"completed"}


@several_people
def test_fragments_that_root_submits_run_as_their_owner_and_nothing_is_doubled(site: Site) -> None:
    with daemon_that_polls_every(POLL_S, site, launcher="submit"):
        pattern = site.submit_trainer("alice", 1, "min=1,max=4")
        alice = site.lab.users["alice"]
        wait_until(lambda: len(running_as(site, alice)) == 4, 30, site)
        assert not nodes_of(site, pattern), "the pattern itself never runs"
        wait_until(lambda: bool(list(site.out.glob("slurm-*.out"))), 10, site)  # where the pattern was submitted
        wait_until(lambda: in_the_ledger(site) == in_slurm(site), 20, site)

        site.kill_daemon()
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10, launcher="submit")
        time.sleep(3 * POLL_S)
        assert len(in_slurm(site)) == 4
        assert in_the_ledger(site) == in_slurm(site)

        job = site.submit(SiteJob(0, NODES - 2, 10, 1))
        wait_until(lambda: job in site.started_s(), 10, site)
        wait_until(lambda: len(running_as(site, alice)) == 4, 40, site)
        site.run("alice", "scancel", pattern)
        wait_until(lambda: not in_slurm(site), 20, site)


def running_as(site: Site, user: str) -> list[str]:
    """Nodes on which this user's jobs run."""
    return sorted(site.run("bob", "squeue", "-h", "-a", "-t", "R", "-u", user, "-o", "%N").split())


@pytest.mark.soak
def test_with_a_grace_time_who_leaves_in_good_order_has_not_completed() -> None:
    """Slurm counts a task that leaves when it is asked to as completed; its training goes on all the same."""
    nodes = 4
    with (
        site_of(LabOptions(nodes=nodes, accounting=True, grace_s=30)) as site,
        daemon_that_polls_every(POLL_S, site, nodes),
    ):
        trainer = site.submit_trainer("alice", nodes, "min=1")
        wait_until(lambda: lent(site, trainer) == nodes, 30, site)
        for _ in range(2):
            job = site.submit(SiteJob(0, nodes, 4, 1))
            wait_until(lambda job=job: job in site.started_s(), 15, site)  # type: ignore[misc]
            wait_until(lambda: lent(site, trainer) == nodes, 60, site)
        assert "is complete" not in site.daemon_says
        assert set(ledger_ends(site, trainer)) <= {"preempted", "released"}, site.daemon_says
