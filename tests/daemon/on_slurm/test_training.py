"""A real training on a real Slurm, lent nodes by the daemon."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.core.decision import Decision
from freetrain.core.known_trainer import KnownTrainer
from freetrain.elastic.on_disk.progress import ProgressLog, read_progress
from freetrain.lab import LabOptions
from freetrain.slurm.parsing import parse_topology
from freetrain.store.store import Store
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, nodes_of, wait_until
from tests.slurm_lab import on_free_ports, require_python_for_all, short_directory

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NODES = 3
TRAINING = Path(__file__).parents[2] / "elastic" / "scripts" / "counting.py"
CURVE = "1:100/2:190/3:270"
STEP = "1.5/0/0.001/0/0.1"
"""Of a second server nobody would have any good."""
# A step is mostly sleep: what freetrain measures, and so what it does, does not depend on how many cores the
# virtual nodes share.
SCRIPT = """#!/bin/bash
export OMP_NUM_THREADS=1 OUT={out} EPOCHS=1500 STEP_ALONE_S=1.5
srun --quiet {python} -m freetrain.cli.main run --trainer {trainer} --nproc 1 {more} -- {python} {training}
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    require_python_for_all()
    settings = {"SchedulerParameters": f"bf_continue,bf_interval={POLL_S},bf_resolution=60"}
    with short_directory() as directory:
        options = LabOptions(nodes=NODES, nodes_per_leaf=2, accounting=True, settings=settings)
        site = Site(directory, on_free_ports(options))
        try:
            yield site
        finally:
            site.close()


def test_a_training_grows_gives_way_to_the_site_and_completes(site: Site) -> None:
    trainer = site.out / "trainer"
    with daemon_that_polls_every(POLL_S, site, NODES):
        job, out = submit(site, trainer)
        wait_until(lambda: nodes_now(trainer) == NODES, 60, site)
        wait_until(lambda: NODES in sizes_observed(site, job), 60, site)

        own = site.submit(SiteJob(0, 1, 3600, 60))
        wait_until(lambda: nodes_now(trainer) == NODES - 1, 30, site)
        wait_until(lambda: NODES - 1 in sizes_observed(site, job), 60, site)
        site.run("bob", "scancel", own)
        wait_until(lambda: nodes_now(trainer) == NODES, 60, site)

        (out / "enough").touch()
        wait_until(lambda: (trainer / "finished.json").exists(), 60, site)
        wait_until(lambda: not nodes_of(site, job), 20, site)
        wait_until(lambda: "is complete" in site.daemon_says, 20, site)
        assert in_the_ledger(site, job).samples_done > 0
    assert min(rate.cpus for rate in progress_of(trainer).rates) > 0, "as Slurm tells each task"
    members = [json.loads(path.read_text()) for path in (trainer / "members").glob("*.json")]
    # Ranks follow them: test_switches.py.
    assert {member["switches"] for member in members} == {"top.leaf1.n001", "top.leaf1.n002", "top.leaf2.n003"}
    changes = [change.cause for change in progress_of(trainer).rescales]
    assert sum(cause in ("join", "leave", "loss") for cause in changes) >= 2
    worlds = [set(json.loads(path.read_text())["members"]) for path in generations(trainer)]
    assert all(before & after for before, after in pairwise(worlds)), "processes go on from world to world"
    assert json.loads((trainer / "finished.json").read_text())


@pytest.mark.soak
def test_a_server_runs_where_it_was_decided_and_elsewhere_when_the_site_has_taken_its_node(site: Site) -> None:
    """SMD says how many nodes and servers, and DLTAP that the server is on the leaf with most of the workers."""
    trainer = site.out / "served"
    with daemon_that_polls_every(POLL_S, site, NODES, more='[decide]\npolicy = "smd"\nplace = "dltap"'):
        job, out = submit(site, trainer, "--servers auto", tag=f",servers=2,step={STEP}")
        wait_until(lambda: workers_and_servers(trainer) == (NODES, 1) and as_decided(site, job, trainer), 60, site)
        node, on = node_of_server(trainer), leaves(site)
        assert on.count(on[int(node[1:]) - 1]) == 2
        own = site.run("bob", "sbatch", "--parsable", "-w", node, "-t", "60", "--wrap", "sleep 3600").strip()
        wait_until(
            lambda: (
                workers_and_servers(trainer) == (NODES - 1, 1)
                and node_of_server(trainer) != node
                and as_decided(site, job, trainer)
            ),
            60,
            site,
        )
        site.run("bob", "scancel", own)
        wait_until(lambda: workers_and_servers(trainer) == (NODES, 1), 60, site)

        (out / "enough").touch()
        wait_until(lambda: (trainer / "finished.json").exists(), 60, site)
        wait_until(lambda: not nodes_of(site, job), 20, site)


def submit(site: Site, trainer: Path, more: str = "", tag: str = "") -> tuple[str, Path]:
    """The job, and where it counts its samples."""
    out = site.out / f"counting-{trainer.name}"
    out.mkdir()
    out.chmod(0o777)
    (out / "pace").touch()
    script = SCRIPT.format(python=sys.executable, trainer=trainer, training=TRAINING, out=out, more=more)
    return site.submit_trainer("alice", NODES, f"min=1,dir={trainer},curve={CURVE}{tag}", script), out


def generations(trainer: Path) -> list[Path]:
    return sorted((trainer / "generations").glob("*.json"))


def last_world(trainer: Path) -> dict[str, Any]:
    paths = generations(trainer)
    world: dict[str, Any] = json.loads(paths[-1].read_text()) if paths else {"members": [], "servers": []}
    return world


def workers_and_servers(trainer: Path) -> tuple[int, int]:
    world = last_world(trainer)
    return len(world["members"]), len(world["servers"])


def node_of_server(trainer: Path) -> str:
    """Empty where none runs just now."""
    try:
        (server,) = last_world(trainer)["servers"]
        pid = json.loads((trainer / "members" / f"{server}.json").read_text())["pid"]
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (ValueError, OSError):
        return ""
    return dict(each.decode().partition("=")[::2] for each in environment).get("SLURMD_NODENAME", "")


def as_decided(site: Site, job: str, trainer: Path) -> bool:
    """Whether the server is where the daemon has decided."""
    return last_decision(site).serving == {job: (node_of_server(trainer),)}


def leaves(site: Site) -> list[str]:
    """Of each node."""
    topology, _ = parse_topology(site.run("bob", "scontrol", "-o", "show", "topology"))
    return [topology.leaf_of(f"n{number:03}") for number in range(1, NODES + 1)]


def last_decision(site: Site) -> Decision:
    store = Store.open_existing(site.directory / "state" / "freetrain.db")
    run = store.runs()[0]
    return store.decision(run.id, run.decision_count)[1]


def in_the_ledger(site: Site, trainer: str) -> KnownTrainer:
    return Store.open_existing(site.directory / "state" / "freetrain.db").ledger().trainers()[trainer]


def sizes_observed(site: Site, trainer: str) -> set[int]:
    return {seen.nodes for seen in in_the_ledger(site, trainer).observations}


def progress_of(trainer: Path) -> ProgressLog:
    path = trainer / "progress.jsonl"
    return read_progress(path) if path.exists() else ProgressLog((), (), 0, 0)


def nodes_now(trainer: Path) -> int:
    """On how many nodes it trains, as its progress says."""
    progress = progress_of(trainer)
    rates = [(rate.time_s, rate.nodes) for rate in progress.rates]
    changes = [(change.time_s, change.nodes) for change in progress.rescales]
    return max(rates + changes, default=(0.0, 0))[1]
