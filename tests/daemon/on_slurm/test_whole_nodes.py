"""Needs, whole nodes and drains on a real Slurm whose partitions share their nodes, half of which have GPUs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from benchmarks.live.site import TRAINER, Site
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, nodes_of, site_of, wait_until
from tests.needed import several_people

pytestmark = pytest.mark.slurm

PLAIN, GPUS = ["n001", "n002", "n003"], ["n004", "n005", "n006"]
NODES = len(PLAIN) + len(GPUS)
CPUS = 4
MEMORY_MB = 1000
LIMIT_S = 60


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Select/cons_tres, cores and memory consumed, no partition exclusive, a default of 100 MB per core."""
    settings = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerCPU": "100"}
    options = LabOptions(
        nodes=NODES, cpus=CPUS, gpus=4, gpu_nodes=len(GPUS), gpu_type="a100", exclusive=False, accounting=True
    )
    with site_of(options, settings) as site:
        yield site


@pytest.fixture
def daemon(site: Site) -> Iterator[Site]:
    with daemon_that_polls_every(POLL_S, site, NODES):
        yield site


def submit(site: Site, tasks: int, *options: str, person: str = "alice", tag: str = "min=1") -> str:
    """A tagged array by plain sbatch."""
    return site.run(
        person, "sbatch", "--parsable", "--hold", f"--array=0-{tasks - 1}", "-N1", "--requeue", "-p", "freetrain",
        f"--comment=freetrain:{tag}", "-o", "/dev/null", *options, stdin=TRAINER,
    )  # fmt: skip


def run_sliver(site: Site, *options: str) -> str:
    """A job of the site's that wants one core."""
    return site.run(
        "bob", "sbatch", "--parsable", "-p", "main", "-n1", "-t5", "-o", "/dev/null", *options, "--wrap=sleep 600"
    )


def held(site: Site, node: str) -> tuple[int, int]:
    """CPUs and megabytes of a node that jobs have."""
    text = site.run("bob", "scontrol", "-o", "show", "node", node)
    found = re.search(r"CPUAlloc=(\d+).*AllocMem=(\d+)", text)
    assert found is not None
    return int(found[1]), int(found[2])


def comment(site: Site, job: str) -> str:
    return site.run("bob", "squeue", "-h", "-a", "-j", job, "-o", "%k")


@pytest.mark.parametrize(
    ("options", "memory_mb"),
    [((), MEMORY_MB), (("--exclusive", "-c3"), MEMORY_MB), (("--mem-per-cpu=300",), 300)],
    ids=["plain", "exclusive", "memory"],
)
def test_a_fragment_holds_its_whole_node_and_nobody_starts_beside_it(
    daemon: Site, options: tuple[str, ...], memory_mb: int
) -> None:
    trainer = submit(daemon, NODES, *options)
    wait_until(lambda: nodes_of(daemon, trainer) == PLAIN + GPUS, LIMIT_S, daemon)
    assert {held(daemon, node) for node in PLAIN + GPUS} == {(CPUS, memory_mb)}

    job = run_sliver(daemon)
    wait_until(lambda: len(nodes_of(daemon, job)) == 1, LIMIT_S, daemon)
    (taken,) = nodes_of(daemon, job)
    assert taken not in nodes_of(daemon, trainer)
    wait_until(lambda: len(nodes_of(daemon, trainer)) == NODES - 1, LIMIT_S, daemon)


def test_a_node_with_a_sliver_of_the_sites_is_not_lent(daemon: Site) -> None:
    job = run_sliver(daemon, "-w", "n002")
    wait_until(lambda: nodes_of(daemon, job) == ["n002"], LIMIT_S, daemon)
    trainer = submit(daemon, NODES)
    wait_until(lambda: nodes_of(daemon, trainer) == ["n001", "n003", *GPUS], LIMIT_S, daemon)


def test_what_cannot_be_made_whole_is_refused_with_the_option_to_add(daemon: Site) -> None:
    trainer = submit(daemon, NODES, "-c3")
    wait_until(lambda: "submit it with --exclusive" in comment(daemon, trainer), LIMIT_S, daemon)
    assert nodes_of(daemon, trainer) == []


def test_gpus_are_lent_to_who_asks_for_them_and_to_others_last(daemon: Site) -> None:
    """Such tasks were pinned to nodes without GPUs, which Slurm refused, again and again."""
    small = submit(daemon, 3, person="bob")
    wait_until(lambda: nodes_of(daemon, small) == PLAIN, LIMIT_S, daemon)
    wanted = submit(daemon, NODES, "--gpus-per-node=4")
    nowhere = submit(daemon, NODES, "--gres=gpu:v100:1")
    wait_until(lambda: nodes_of(daemon, wanted) == GPUS, LIMIT_S, daemon)
    assert nodes_of(daemon, small) == PLAIN
    assert {held(daemon, node) for node in GPUS} == {(CPUS, MEMORY_MB)}
    wait_until(lambda: "no node of the partition can run it" in comment(daemon, nowhere), LIMIT_S, daemon)
    assert "BadConstraints" not in daemon.run("bob", "squeue", "-h", "-a", "-r", "-o", "%r")
    assert f"lend n001 to {wanted}" not in daemon.daemon_says


def test_fragments_that_root_submits_hold_whole_nodes(site: Site) -> None:
    with daemon_that_polls_every(POLL_S, site, NODES, launcher="submit"):
        script = f"#!/bin/bash\n#SBATCH --mem-per-cpu=50\n{TRAINER}"
        pattern = site.run(
            "alice", "sbatch", "--parsable", "--hold", "-N1", "-p", "freetrain", "--comment=freetrain:max=2",
            stdin=script,
        )  # fmt: skip
        wait_until(lambda: [held(site, node) for node in running(site)] == 2 * [(CPUS, 50)], LIMIT_S, site)
        site.run("alice", "scancel", pattern)


def running(site: Site) -> list[str]:
    return site.run("bob", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%N").split()


def reserve(site: Site, nodes: str) -> subprocess.CompletedProcess[str]:
    """What an admin does before maintenance."""
    command = ["scontrol", "create", "reservation=m", "starttime=now+20", "duration=5", f"nodes={nodes}"]
    return subprocess.run(
        [*command, "users=root", "flags=maint"], env=site.environment, capture_output=True, text=True
    )


@several_people
def test_nodes_can_be_reserved_when_they_have_been_drained(daemon: Site) -> None:
    trainer = submit(daemon, NODES)
    wait_until(lambda: nodes_of(daemon, trainer) == PLAIN + GPUS, LIMIT_S, daemon)
    refused = reserve(daemon, "n[002-003]")
    assert (refused.returncode, "busy" in refused.stderr) == (1, True), refused.stderr

    drained = daemon.freetrain("root", "drain", "n[002-003]", "--for", "1h", "--wait", "--timeout", f"{LIMIT_S}s")
    assert drained.returncode == 0, drained.stderr + daemon.daemon_says
    made = reserve(daemon, "n[002-003]")
    assert made.returncode == 0, made.stderr
    subprocess.run(["scontrol", "delete", "reservation=m"], env=daemon.environment, check=True)
    assert nodes_of(daemon, trainer) == ["n001", *GPUS]
    told = lambda: daemon.freetrain("daemon", "nodes").stdout  # noqa: E731
    wait_until(lambda: "drained by the site until" in told(), LIMIT_S, daemon)
    assert "n[002-003]" in daemon.freetrain("daemon", "drain").stdout

    denied = daemon.freetrain("bob", "undrain", "n[002-003]")
    assert (denied.returncode, "cannot change which nodes are drained" in denied.stderr) == (74, True), (
        denied.stderr
    )
    back = daemon.freetrain("daemon", "undrain", "n[002-003]")
    assert back.returncode == 0, back.stderr
    wait_until(lambda: nodes_of(daemon, trainer) == PLAIN + GPUS, LIMIT_S, daemon)
