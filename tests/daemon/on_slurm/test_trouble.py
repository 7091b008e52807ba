"""The daemon, Slurm, a node and all of a training's tasks fail: nothing is doubled, and nothing lost."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from benchmarks.live.site import Site
from tests.daemon.on_slurm.site import (
    POLL_S,
    comment_of,
    daemon_that_polls_every,
    has_a_database,
    in_slurm,
    in_the_ledger,
    lent,
    nodes_of,
    settled,
    states_of,
    submit_three,
    wait_until,
)

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SILENT, AGAIN = "does not answer", "succeed again"
FAILS = """#!/bin/bash
[ -e {flag} ] || exit 1
srun --quiet bash -c 'trap "exit 0" TERM; sleep infinity & wait'
"""


def test_killed_and_started_again_nothing_is_doubled_and_nothing_lost(daemon: Site) -> None:
    trainers = submit_three(daemon)
    for delay_s in (0.9, 1.3, 2.0):
        time.sleep(delay_s)
        daemon.kill_daemon()
        daemon.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    wait_until(lambda: settled(daemon, *trainers), 60, daemon)
    wait_until(lambda: in_the_ledger(daemon) == in_slurm(daemon), 20, daemon)
    running = in_slurm(daemon)
    daemon.kill_daemon()
    time.sleep(2 * POLL_S)
    assert in_slurm(daemon) == running, "fragments go on without the daemon"
    daemon.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    time.sleep(3 * POLL_S)
    assert in_slurm(daemon) == running == in_the_ledger(daemon)


def test_a_lost_database_is_found_again_in_slurm(daemon: Site) -> None:
    trainers = submit_three(daemon)
    wait_until(lambda: settled(daemon, *trainers), 60, daemon)
    wait_until(lambda: in_the_ledger(daemon) == in_slurm(daemon), 20, daemon)
    running = in_slurm(daemon)
    daemon.stop_daemon()
    shutil.rmtree(daemon.directory / "state")
    daemon.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    wait_until(lambda: has_a_database(daemon), 20, daemon)
    wait_until(lambda: in_the_ledger(daemon) == running, 20, daemon)
    assert in_slurm(daemon) == running


def test_slurm_stopped_and_started_again_changes_nothing(daemon: Site) -> None:
    trainers = submit_three(daemon)
    wait_until(lambda: settled(daemon, *trainers), 60, daemon)
    wait_until(lambda: in_the_ledger(daemon) == in_slurm(daemon), 20, daemon)
    running = in_slurm(daemon)
    wait_until_saved(daemon)
    silent, again = (daemon.daemon_says.count(words) for words in (SILENT, AGAIN))
    daemon.lab.kill_controller()
    wait_until(lambda: daemon.daemon_says.count(SILENT) > silent, 30, daemon)
    time.sleep(2 * POLL_S)
    assert daemon.daemon_says.count(SILENT) == silent + 1
    daemon.lab.start_controller()
    wait_until(lambda: daemon.daemon_says.count(AGAIN) > again, 30, daemon)
    time.sleep(2 * POLL_S)
    assert in_slurm(daemon) == running == in_the_ledger(daemon)


def wait_until_saved(site: Site) -> None:
    """Until Slurm has written down its jobs, which it does a few seconds after a change."""
    saved, begin_s = site.lab.directory / "state" / "job_state", time.time()
    site.run("bob", "sbatch", "--hold", "-o", "/dev/null", "--wrap=true")
    wait_until(lambda: saved.exists() and saved.stat().st_mtime > begin_s, 10, site)


def test_a_node_that_dies_is_a_node_that_failed(daemon: Site) -> None:
    trainer = daemon.submit_trainer("alice", 4, "min=1")
    wait_until(lambda: lent(daemon, trainer) == 4, 30, daemon)
    node = nodes_of(daemon, trainer)[0]
    daemon.lab.crash(node)
    wait_until(lambda: f"on {node}: node failed" in daemon.daemon_says, 90, daemon)
    wait_until(lambda: len(set(nodes_of(daemon, trainer)) - {node}) == 4, 90, daemon)


@pytest.mark.soak
def test_a_training_whose_tasks_have_all_failed_is_kept_and_its_owner_can_resume_it(site: Site) -> None:
    flag = site.out / "mended"
    script = FAILS.format(flag=flag)
    more = 'back_off = "1s"\nfailures_to_pause = 2'
    with daemon_that_polls_every(POLL_S, site, more=more):
        trainers = [site.submit_trainer("alice", tasks, "min=1", script) for tasks in (1, 2, 40)]
        wait_until(lambda: all(" | paused after" in comment_of(site, trainer) for trainer in trainers), 120, site)
        # Slurm forgets those in any other state.
        states = lambda: {state for trainer in trainers for state in states_of(site, trainer)}  # noqa: E731
        wait_until(lambda: states() == {"PENDING"}, 30, site)
        site.kill_daemon()
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10, more=more)
        flag.touch()
        if os.geteuid() == 0:
            assert site.freetrain("bob", "resume", trainers[0]).returncode != 0
        for trainer in trainers:
            resumed = site.freetrain("alice", "resume", trainer)
            assert (resumed.returncode, "competes for nodes again" in resumed.stdout) == (0, True), resumed.stderr
        wait_until(lambda: all(lent(site, trainer) for trainer in trainers), 60, site)
        wait_until(lambda: all(comment_of(site, trainer) == "freetrain:min=1" for trainer in trainers), 30, site)
    flag.unlink()
