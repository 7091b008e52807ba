"""Trainers with different constraints on a real Slurm: one decision for all nodes, and nodes of their kinds."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from benchmarks.live.site import TRAINER, Site
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, nodes_of, site_of, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NEW, OLD = ["n001", "n002", "n003", "n004"], ["n005", "n006"]


@pytest.fixture
def site() -> Iterator[Site]:
    with site_of(LabOptions(nodes=len(NEW + OLD), accounting=True)) as site:
        for names, feature in ((NEW, "new"), (OLD, "old")):
            says = [f"NodeName={','.join(names)}", f"AvailableFeatures={feature}", f"ActiveFeatures={feature}"]
            done = subprocess.run(["scontrol", "update", *says], env=site.environment, capture_output=True)
            assert done.returncode == 0, done.stderr
        yield site


def submit(site: Site, constraint: str, tag: str) -> str:
    return site.run(
        "alice", "sbatch", "--parsable", "--hold", "--array=0-5", "-N1", "--requeue", "-p", "freetrain",
        f"--constraint={constraint}", f"--comment=freetrain:{tag}", "-o", "/dev/null", stdin=TRAINER,
    )  # fmt: skip


@pytest.mark.soak
def test_trainers_with_different_constraints_compete_and_get_nodes_of_their_kinds(site: Site) -> None:
    """A training that hardly gets on where nodes are old takes new ones from one that can use no others."""
    with daemon_that_polls_every(POLL_S, site, len(NEW + OLD)):
        slow_on_old = submit(site, "new|old", "min=1,speed=old:0.01")
        only_new = submit(site, "new", "min=1")
        wait_until(lambda: len(nodes_of(site, only_new)) == len(nodes_of(site, slow_on_old)) == 2, 30, site)
        assert sorted(nodes_of(site, only_new) + nodes_of(site, slow_on_old)) == NEW
        assert "6 nodes among 2 trainings" in site.freetrain("daemon", "explain", slow_on_old).stdout

        site.run("alice", "scancel", only_new)
        wait_until(lambda: nodes_of(site, slow_on_old) == NEW, 30, site)
        anything = submit(site, "old|new", "min=1")
        wait_until(lambda: nodes_of(site, anything) == OLD, 30, site)
        assert re.search(r"among 2 trainings", site.freetrain("daemon", "explain", anything).stdout)
