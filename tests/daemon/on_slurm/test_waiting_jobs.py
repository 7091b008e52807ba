"""Jobs of the site's that wait for what fragments have, on a real Slurm: for nodes, and for a part of a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks.live.site import Ran, Site
from benchmarks.live.workload import SiteJob
from freetrain.core.harm import Harm
from freetrain.lab import LabOptions
from freetrain.store.store import Store
from tests.daemon.on_slurm.site import (
    POLL_S,
    daemon_that_polls_every,
    in_slurm,
    lent,
    nodes_of,
    site_of,
    wait_until,
)

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NODES, KILL_WAIT_S = 3, 10
DEAF = "#!/bin/bash\ntrap '' TERM\nsrun --quiet bash -c 'trap \"\" TERM; while true; do sleep 1; done'\n"
"""A program that ignores SIGTERM."""
SETTINGS = f'[harm]\nlimit = "{KILL_WAIT_S // 2}s"\nallowed = 100\n[slurm]\nbackend = "cli"'
"""A program that ignores SIGTERM takes longer than the limit, which does not stop the lending here."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    options = LabOptions(nodes=NODES, accounting=True)
    more = {"KillWait": str(KILL_WAIT_S)}
    with site_of(options, more) as site, daemon_that_polls_every(POLL_S, site, NODES, more=SETTINGS):
        yield site


@pytest.fixture(autouse=True)
def no_training_is_left(site: Site) -> Iterator[None]:
    """Also where a test failed: the next one finds all nodes free."""
    yield
    alice = f"--user={site.lab.users['alice']}"
    site.run("alice", "scancel", alice)
    wait_until(lambda: not site.run("bob", "squeue", "-h", "-a", alice), 60, site)


def harm_of(site: Site, job: str) -> Harm:
    """What the meter counted of a job, once it has."""
    ledger = Store.open_existing(site.directory / "state" / "freetrain.db").ledger()
    wait_until(lambda: any(harm.job == job for harm in ledger.harms()), 60, site)
    return next(harm for harm in ledger.harms() if harm.job == job)


def run_of(site: Site, job: str) -> Ran:
    (run,) = [run for run in site.accounting("main") if run.id == job]
    return run


def whole_delay_s(site: Site, job: str) -> float:
    """From its submission to its start: where nothing is lent it starts within a second."""
    run = run_of(site, job)
    return run.start_s - run.submitted_s


def test_the_time_in_which_a_program_ignores_sigterm_counts_as_delay(site: Site) -> None:
    trainer = site.submit_trainer("alice", NODES, "min=1", DEAF)
    wait_until(lambda: lent(site, trainer) == NODES, 60, site)
    fragment_on = {node: fragment for fragment, node in in_slurm(site).items()}
    job = site.submit(SiteJob(0.0, 2, 5.0, 5))
    harm = harm_of(site, job)
    assert whole_delay_s(site, job) >= KILL_WAIT_S
    assert abs(harm.delay_s - whole_delay_s(site, job)) <= 2.0
    # How it is divided depends on when the daemon looked, which a busy machine decides.
    assert harm.window_s < harm.delay_s
    # All three, where freetrain has given other nodes back than Slurm takes in that moment.
    assert {fragment_on[node] for node in run_of(site, job).node_names} <= set(harm.fragments)


def test_a_training_that_is_slow_to_leave_gets_nodes_of_which_the_next_use_is_known(site: Site) -> None:
    trainer = site.submit_trainer("alice", NODES, "min=1", DEAF)
    wait_until(lambda: lent(site, trainer) == NODES, 60, site)
    site.submit(SiteJob(0.0, 2, 5.0, 5))
    explained = lambda: site.freetrain("alice", "explain", trainer).stdout  # noqa: E731
    wait_until(lambda: "s to leave a node when it has to, longer than harm.limit" in explained(), 60, site)
    assert lent(site, trainer) == 0, "nobody knows when the nodes are wanted next"
    reserve = "scontrol create reservation=later starttime=now+300 duration=5 nodes=n002 users=root"
    site.run("root", *reserve.split())
    wait_until(lambda: nodes_of(site, trainer) == ["n002"], 60, site)
    site.run("root", "scontrol", "delete", "reservation=later")


def test_a_job_that_waits_for_a_limit_of_its_account_gets_its_part_back(site: Site) -> None:
    site.run("root", "sacctmgr", "-i", "modify", "account", "ml", "set", "GrpTRES=cpu=8")
    trainer = site.submit_trainer("alice", 2, "min=1")
    wait_until(lambda: lent(site, trainer) == 2, 60, site)
    job = site.submit(SiteJob(0.0, 1, 30.0, 5))
    harm = harm_of(site, job)
    assert lent(site, trainer) == 1, "one node is idle, and one of the fragments has left for it"
    assert harm.fragments
    assert harm.delay_s >= whole_delay_s(site, job) - 2.0
    said = json.loads(site.freetrain("root", "explain", job, "--json").stdout)["sentences"]
    assert f"Job {job} is one of the site's own." in said[0]
