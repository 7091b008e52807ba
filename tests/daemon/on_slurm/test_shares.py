"""Parts of nodes lent on a real Slurm: eight GPUs on each node, and the site's jobs take some of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.live.site import TRAINER, Site
from freetrain.lab import LabOptions
from freetrain.store.store import Store
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, site_of, wait_until

pytestmark = pytest.mark.slurm

NODES = 2
LIMIT_S = 60


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Select/cons_tres, cores and memory consumed, no partition exclusive, each node at a switch of its own."""
    settings = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerCPU": "20"}
    gpus = {"cpus": 16, "gpus": 8, "gpu_type": "a100"}
    options = LabOptions(nodes=NODES, nodes_per_leaf=1, exclusive=False, accounting=True, **gpus)
    with site_of(options, settings) as site:
        yield site


@pytest.fixture
def daemon(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    launcher, _, finish = getattr(request, "param", "steer").partition(" ")
    lend, decide = 'share = "gpus"\nkeep = "cpu=2"', f'[decide]\nfinish = "{finish or "synergy-tune"}"'
    with daemon_that_polls_every(POLL_S, site, NODES, launcher, lend=lend, more=decide):
        yield site


def submit(site: Site, tasks: int, *options: str, person: str = "alice") -> str:
    """A tagged array by plain sbatch."""
    return site.run(
        person, "sbatch", "--parsable", "--hold", f"--array=0-{tasks - 1}", "-N1", "--requeue", "-p", "freetrain",
        "--comment=freetrain:min=1", "-o", "/dev/null", *options, stdin=TRAINER,
    )  # fmt: skip


def take(site: Site, node: str, *options: str) -> str:
    """One of the site's jobs, on that node."""
    return site.run(
        "bob", "sbatch", "--parsable", "-p", "main", "-t5", "-o", "/dev/null", "-w", node, *options,
        "--wrap=sleep 600",
    )  # fmt: skip


def running(site: Site, *jobs: str) -> Counter[str]:
    """Node → how many of these jobs, or tasks of these arrays, run there."""
    return Counter(site.run("bob", "squeue", "-h", "-a", "-t", "R", "-j", ",".join(jobs), "-o", "%N").split())


def used(site: Site, node: str) -> tuple[int, int]:
    """CPUs and GPUs of a node that jobs have."""
    text = site.run("bob", "scontrol", "-d", "-o", "show", "node", node)
    found = re.search(r"CPUAlloc=(\d+).*GresUsed=gpu:a100:(\d+)", text)
    assert found is not None
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("daemon", ["steer", "submit"], indirect=True)
def test_the_gpus_that_the_site_leaves_are_lent_and_no_more(daemon: Site) -> None:
    """On n001 six GPUs are left; on n002 CPUs for three tasks, two being kept."""
    jobs = [take(daemon, "n001", "--gres=gpu:2", "-c3"), take(daemon, "n002", "-c8")]
    wait_until(lambda: running(daemon, *jobs) == {"n001": 1, "n002": 1}, LIMIT_S, daemon)
    submit(daemon, 16, "--gpus-per-node=a100:1", "-c2", "--mem=30")
    lent = lambda: (used(daemon, "n001"), used(daemon, "n002"))  # noqa: E731
    wait_until(lambda: lent() == ((3 + 5 * 2, 2 + 5), (8 + 3 * 2, 3)), LIMIT_S, daemon)
    assert running(daemon, *jobs) == {"n001": 1, "n002": 1}
    books = Store.open_existing(daemon.directory / "state" / "freetrain.db").ledger()
    assert {fragment.share for fragment in books.open_fragments()} == {1 / 8}, (
        "each has one GPU of eight, and two CPUs of 16"
    )


def progress_line(samples: int, share: float, cpus: int) -> str:
    """Of a training that waited for data for this part of each step, with so many CPUs."""
    numbers = {
        "time_s": 1e9, "generation": 1, "world": 1, "nodes": 1, "step": 9, "epoch": 0, "samples_done": samples,
        "samples": 9, "elapsed_s": 9.0, "samples_per_s": 1.0, "step_s": 1.0, "compute_s": 1.0,
        "communication_s": 0.0,
    }  # fmt: skip
    return json.dumps({"event": "rate", **numbers, "data_wait_share": share, "cpus": cpus}) + "\n"


def progress_that_waits_for_data(site: Site, share: float) -> str:
    """The directory of such a training of alice's, which had the one CPU that it asked for."""
    directory = site.run("alice", "mktemp", "-d", "/tmp/waits-XXXXXX")
    site.run("alice", "chmod", "711", directory)
    site.run("alice", "tee", f"{directory}/progress.jsonl", stdin=progress_line(9, share, 1))
    return directory


def await_samples(site: Site, samples: int) -> None:
    """Until the daemon has read that so many are done."""
    status = site.directory / "state" / "status.json"
    told = lambda: status.read_text() if status.exists() else ""  # noqa: E731
    wait_until(lambda: re.search(rf'"samples_done": ?{samples}\b', told()) is not None, LIMIT_S, site)


def fragments(site: Site) -> list[list[str]]:
    """Node and CPUs of each that runs."""
    said = site.run("bob", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%N %C")
    return [line.split() for line in said.splitlines()]


RARER = pytest.param("submit", marks=pytest.mark.soak)


@pytest.mark.parametrize("daemon", ["steer", RARER], indirect=True)
def test_who_waits_for_data_gets_the_cpus_that_belong_to_his_gpu_each_time(daemon: Site) -> None:
    """13 CPUs are left beside the two that are kept and the one that is asked for, and eight GPUs are free.

    With what it gets it waits no longer, and says so. When it says later that with twice the CPUs it waits as long
    as it did with one, it gets no more.
    """
    directory = progress_that_waits_for_data(daemon, 0.5)
    submit(daemon, 1, "--gpus-per-node=a100:1", "-c1", "--mem=30", f"--comment=freetrain:max=1,dir={directory}")
    wait_until(lambda: len(fragments(daemon)) == 1, LIMIT_S, daemon)
    await_samples(daemon, 9)
    had = []
    for share in (0.0, 0.5, 0.5):
        ((node, _),) = fragments(daemon)
        job, (other,) = take(daemon, node, "-c16"), {"n001", "n002"} - {node}
        wait_until(lambda other=other: [fragment[0] for fragment in fragments(daemon)] == [other], LIMIT_S, daemon)
        had.append(fragments(daemon)[0][1])
        line = progress_line(9 + len(had), share, int(had[-1]))
        daemon.run("alice", "tee", "-a", f"{directory}/progress.jsonl", stdin=line)
        await_samples(daemon, 9 + len(had))
        daemon.run("bob", "scancel", job)
        wait_until(lambda job=job: not running(daemon, job), LIMIT_S, daemon)
    daemon.run("alice", "rm", "-r", directory)
    assert had == ["2", "2", "1"]


@pytest.mark.parametrize("daemon", ["submit synergy-opt"], indirect=True)
def test_who_caches_its_data_gets_the_memory_for_it_where_it_waits_for_them(daemon: Site) -> None:
    stop = daemon.directory / "state" / "STOP"
    stop.touch()
    directory = progress_that_waits_for_data(daemon, 0.5)
    submit(
        daemon,
        1,
        "--gpus-per-node=a100:1",
        "-c1",
        "--mem=30",
        f"--comment=freetrain:max=1,cache=50,dir={directory}",
    )
    await_samples(daemon, 9)
    stop.unlink()
    shown = ("squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%C %m")
    wait_until(lambda: daemon.run("bob", *shown) == "1 80M", LIMIT_S, daemon)
    daemon.run("alice", "rm", "-r", directory)


def test_who_comes_later_gets_a_fair_part_of_the_gpus_and_the_site_what_it_asks_for(daemon: Site) -> None:
    first = submit(daemon, 16, "--gpus-per-node=1", "-c1", "--mem=20")
    wait_until(lambda: running(daemon, first) == {"n001": 8, "n002": 8}, LIMIT_S, daemon)
    second = submit(daemon, 4, "--gpus-per-node=4", "-c4", "--mem=20", person="bob")
    wait_until(lambda: running(daemon, second).total() == 2, LIMIT_S, daemon)
    wait_until(lambda: running(daemon, first).total() == 8, LIMIT_S, daemon)

    job = take(daemon, "n001", "--gres=gpu:3", "-c1")
    wait_until(lambda: running(daemon, job) == {"n001": 1}, LIMIT_S, daemon)
    wait_until(
        lambda: 8 * running(daemon, second).total() // 2 + running(daemon, first).total() > 8, LIMIT_S, daemon
    )
