"""Sites with a real Slurm and people in it, and what a test of the daemon there sees."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pytest

from benchmarks.live.site import Site
from freetrain.errors import StateError
from freetrain.lab import LabOptions
from freetrain.store.store import Store
from tests.slurm.lua import job_comp_with
from tests.slurm_lab import on_free_ports, require_python_for_all, short_directory

POLL_S = 3
NODES = 16
SLACK = 8
"""So much more time than an idle machine needs does a busy one have; whatever fails because of it never comes."""


@contextmanager
def site_of(options: LabOptions, more: Mapping[str, str] = {}) -> Iterator[Site]:
    require_python_for_all()
    planning = f"bf_continue,bf_interval={POLL_S},bf_resolution=60"
    with short_directory() as directory:
        job_comp = directory / "freetrain.lua"
        job_comp.write_text(job_comp_with(directory / "wake"))
        settings = {"SchedulerParameters": planning, "SlurmdTimeout": "15", **more}
        site = Site(directory, on_free_ports(replace(options, settings=settings, job_comp=job_comp)))
        try:
            yield site
        finally:
            site.close()


@contextmanager
def daemon_that_polls_every(
    poll_s: float,
    site: Site,
    nodes: int = NODES,
    launcher: str = "steer",
    margin_s: float = 5,
    more: str = "",
    lend: str = "",
) -> Iterator[None]:
    (site.directory / "daemon.log").unlink(missing_ok=True)
    site.start_daemon(poll_s, margin_s=margin_s, shortest_hole_s=10, launcher=launcher, more=more, lend=lend)
    try:
        wait_until(lambda: "mode act" in site.daemon_says, 60, site)
        yield
    finally:
        clean_up(site, nodes)


def clean_up(site: Site, nodes: int) -> None:
    """Whatever a test has left goes, also where it was cut off by what failed: the next one begins as it did."""
    with ExitStack() as left:
        left.callback(shutil.rmtree, site.directory / "state", ignore_errors=True)
        left.callback(free_all_nodes, site, nodes)
        site.stop_daemon()


def free_all_nodes(site: Site, nodes: int) -> None:
    """Until all can be lent at once: nothing runs or is reserved, and who was away is back."""
    site.lab.start_controller()
    for name, runs in site.lab.status().nodes.items():
        if not runs:
            site.lab.start_node(name)
    for said in site.run("root", "scontrol", "-o", "show", "reservation").splitlines():
        if said.startswith("ReservationName="):
            site.run("root", "scontrol", "delete", f"reservation={said.split()[0].partition('=')[2]}")
    wait_until(lambda: cancel_all(site), 40, site)
    wait_until(lambda: len(idle_nodes(site)) == nodes, 60, site)


def cancel_all(site: Site) -> bool:
    """Whether there is no job any more."""
    for user in set(site.lab.users.values()):
        site.run("daemon", "scancel", f"--user={user}")
    return not site.run("bob", "squeue", "-h", "-a", "-o", "%T")


def idle_nodes(site: Site) -> set[str]:
    """Those that could be lent at once; what Slurm has put out of service is put back."""
    states = dict(line.split() for line in site.run("bob", "sinfo", "-h", "-N", "-o", "%N %T").splitlines())
    if broken := [name for name, state in states.items() if state.startswith(("drain", "down"))]:
        with suppress(RuntimeError):  # one that does not answer yet
            site.run("root", "scontrol", "update", f"NodeName={','.join(broken)}", "State=RESUME")
    return {name for name, state in states.items() if state == "idle"}


def wait_until(fine: Callable[[], bool], seconds: float, site: Site) -> float:
    """Seconds until it was so.

    Args:
        fine: whether it is.
        seconds: that it may take on an idle machine.
        site: what is shown when it takes too long.
    """
    begin_s = time.monotonic()
    while not fine():
        if time.monotonic() - begin_s > SLACK * seconds:
            queue = site.run("bob", "squeue", "-a", "-o", "%i %P %T %r %N %l %k")
            nodes = site.run("bob", "sinfo", "-N", "-o", "%N %T")
            pytest.fail(f"not so within {SLACK * seconds} s\n{queue}\n{nodes}\n{site.daemon_says}")
        time.sleep(min(1.0, 0.2 + (time.monotonic() - begin_s) / 10))  # each look starts commands
    return time.monotonic() - begin_s


def nodes_of(site: Site, job: str) -> list[str]:
    found = site.run("bob", "squeue", "-h", "-a", "-t", "R", "-j", job, "-o", "%N")
    return sorted(found.split())


def lent(site: Site, *trainers: str) -> int:
    return sum(len(nodes_of(site, trainer)) for trainer in trainers)


def settled(site: Site, *trainers: str) -> bool:
    """Whether all nodes are lent, and to all."""
    sizes = [len(nodes_of(site, trainer)) for trainer in trainers]
    return sum(sizes) == NODES and min(sizes) > 0


def has_a_database(site: Site) -> bool:
    """Whether the daemon has made its database, all of it."""
    try:
        Store.open_existing(site.directory / "state" / "freetrain.db")
    except StateError:
        return False
    return True


def in_the_ledger(site: Site) -> dict[str, str]:
    fragments = Store.open_existing(site.directory / "state" / "freetrain.db").ledger().open_fragments()
    return {fragment.job: fragment.node for fragment in fragments}


def in_slurm(site: Site) -> dict[str, str]:
    text = site.run("bob", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%i %N")
    return dict(line.split() for line in text.splitlines())


def ledger_ends(site: Site, trainer: str) -> list[str]:
    ledger = Store.open_existing(site.directory / "state" / "freetrain.db").ledger()
    return [str(end) for end in ledger.ends_by_trainer([trainer]).get(trainer, {})]


def comment_of(site: Site, job: str) -> str:
    """What Slurm shows of the tasks that have not ended."""
    return site.run("bob", "squeue", "-h", "-a", "-j", job, "-o", "%k").partition("\n")[0]


def states_of(site: Site, job: str) -> list[str]:
    return site.run("bob", "squeue", "-h", "-a", "-t", "all", "-r", "-j", job, "-o", "%T").split()


def submit_three(site: Site) -> list[str]:
    return [
        site.submit_trainer("alice", NODES, "min=1"),
        site.submit_trainer("alice", 8, "min=2,max=8"),
        site.submit_trainer("bob", NODES, "min=1"),
    ]
