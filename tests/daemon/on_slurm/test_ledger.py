"""Hundreds of runs beside each other on shared nodes of a real Slurm: the ledger is what accounting says."""

from __future__ import annotations

import json
import random
import time

import pytest

from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, site_of, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.soak]

NODES, SECONDS, RUNS = 3, 300, 300
SHARES = 'share = "gpus"'
SHAPES = ("1 -c1 --mem=20", "3 -c2 --mem=40", "1 -c5 --mem=20", "1 -c2 --mem=400", "6 -c1 --mem=20")
"""GPUs, cores and memory of tasks: another resource is the first to be used up by each."""
TASK = "#!/bin/bash\nsleep $((RANDOM % 12 + 1))\n"


def test_every_run_on_shared_nodes_lasts_as_long_in_the_ledger_as_in_accounting() -> None:
    draw = random.Random(7)
    memory = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerCPU": "20"}
    options = LabOptions(nodes=NODES, cpus=16, gpus=8, gpu_type="a100", exclusive=False, accounting=True)
    with site_of(options, memory) as site, daemon_that_polls_every(POLL_S, site, NODES, lend=SHARES):
        for number, shape in enumerate(SHAPES):
            site.run(
                ("alice", "bob")[number % 2], "sbatch", "--hold", "--array=0-399", "-N1", "--requeue", "-t5",
                "-p", "freetrain", "--comment=freetrain:kind=tasks,shortest=1", "-o", "/dev/null",
                *f"--gpus-per-node=a100:{shape}".split(), stdin=TASK,
            )  # fmt: skip
        until_s = time.monotonic() + SECONDS
        while time.monotonic() < until_s:
            time.sleep(draw.uniform(3, 9))
            size = (f"--gres=gpu:{draw.choice((1, 3, 5, 8))}", f"-c{draw.choice((1, 4, 8))}")
            lasts = f"--wrap=sleep {draw.randrange(2, 20)}"
            site.run("bob", "sbatch", "-p", "main", "-t1", "-o", "/dev/null", "-N1", *size, lasts)
            if draw.random() < 0.05:
                site.kill_daemon()
                time.sleep(draw.uniform(0, 8))
                site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10, lend=SHARES)
        (site.directory / "state" / "STOP").touch()
        wait_until(lambda: not site.run("bob", "squeue", "-h", "-t", "R,CG", "-p", "freetrain"), 30, site)
        time.sleep(5 * POLL_S)  # accounting hears of ends a little later
        checked = site.freetrain("root", "ledger", "--check", "--json", "--from", "now-1hours")
        found = json.loads(checked.stdout)
    assert (found["differences"], checked.returncode) == ([], 0)
    assert found["compared"] > RUNS
