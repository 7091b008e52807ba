"""Layouts of a real Slurm that would let the site's jobs wait for fragments, and a second daemon."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, clean_up, wait_until
from tests.needed import several_people
from tests.slurm_lab import on_free_ports, short_directory

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NODES = 4
SCHEDULER = f"bf_continue,bf_interval={POLL_S}"
DEBUG = "PartitionName=debug Nodes=ALL MaxTime=7-0 DefaultTime=1:00:00 OverSubscribe=EXCLUSIVE PriorityTier=5"
HALF = "PartitionName=half Nodes=n[001-002] MaxTime=7-0 OverSubscribe=EXCLUSIVE PriorityTier=7"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Three partitions of the site's over the same nodes, and freetrain's below them."""
    with short_directory() as directory:
        site = Site(
            directory,
            on_free_ports(LabOptions(nodes=NODES, accounting=True, settings={"SchedulerParameters": SCHEDULER})),
        )
        try:
            with Path(site.environment["SLURM_CONF"]).open("a") as file:
                file.write(f"{DEBUG}\n{HALF}\n")
            admin(site, "scontrol reconfigure")
            yield site
        finally:
            site.close()


@pytest.fixture(autouse=True)
def layout_as_it_was(site: Site) -> Iterator[None]:
    """Each test leaves Slurm as it was at first, however it ends."""
    path = Path(site.environment["SLURM_CONF"])
    before = path.read_text()
    yield
    for partition, tier in (("freetrain", 1), ("half", 7), ("debug", 5)):
        admin(site, f"scontrol update PartitionName={partition} PriorityTier={tier} GraceTime=0")
    if path.read_text() != before:
        site.lab.stop_controller()  # not all of it is taken by a running one
        path.write_text(before)
        site.lab.start_controller()


def admin(site: Site, command: str) -> str:
    """What an administrator does, and what it prints."""
    done = subprocess.run(shlex.split(command), env=site.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def configure(site: Site, line: str) -> None:
    """Put a line in slurm.conf in the place of that with its key."""
    path = Path(site.environment["SLURM_CONF"])
    key = line.partition("=")[0]
    kept = [old for old in path.read_text().splitlines() if not old.startswith(f"{key}=")]
    path.write_text("\n".join([line, *kept]) + "\n")


def run_daemon(
    site: Site, state: str, partition: str = "freetrain", qos: str = ""
) -> subprocess.CompletedProcess[str]:
    """A daemon that lends and looks once."""
    folder = site.out / state
    config = site.out / "once.toml"
    config.write_text(
        f'[slurm]\nbackend = "cli"\npartition = "{partition}"\nqos = "{qos}"\n[lend]\nmode = "act"\n'
        f'[state]\ndirectory = "{folder}"\nstop_file = "{folder}/STOP"\n'
    )
    program = [sys.executable, "-m", "freetrain.cli.main", "daemon", "--config", str(config), "--cycles", "1"]
    return subprocess.run(
        site.command("daemon", *program),
        env=site.environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
    )


def mends(said: str) -> list[str]:
    """What a refusal says is to be done, in the order in which it is typed."""
    lines = re.findall(r"^    (.+)$", said, re.MULTILINE)
    return sorted(dict.fromkeys(lines), key=lambda line: not line.startswith("sacctmgr"))


def refused(site: Site, **how: str) -> str:
    ended = run_daemon(site, "once", **how)
    assert ended.returncode == 69, ended.stderr
    assert "is refused" in ended.stderr
    return ended.stderr


def accepted(site: Site, **how: str) -> str:
    ended = run_daemon(site, "once", **how)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@contextmanager
def running(site: Site) -> Iterator[None]:
    (site.directory / "daemon.log").unlink(missing_ok=True)
    site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    try:
        wait_until(lambda: "mode act" in site.daemon_says, 30, site)
        yield
    finally:
        clean_up(site, NODES)


def lent(site: Site) -> int:
    return len(site.run("bob", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%i").split())


def submit_to(site: Site, partition: str) -> str:
    """A job of the site's that wants all nodes."""
    options = ("--parsable", "-p", partition, f"-N{NODES}", "-t1", "-o", "/dev/null")
    return site.run("bob", "sbatch", *options, stdin="#!/bin/sh\nsleep 2\n")


def started(site: Site, job: str) -> bool:
    return site.run("bob", "squeue", "-h", "-a", "-t", "all", "-j", job, "-o", "%T") in ("RUNNING", "COMPLETED")


def test_unsafe_tiers_and_times_are_refused_all_at_once_and_what_mends_them_is_said(site: Site) -> None:
    assert "began last" not in accepted(site)
    configure(site, "PreemptExemptTime=00:02:00")
    configure(site, f"SchedulerParameters={SCHEDULER},preempt_youngest_first")
    admin(site, "scontrol reconfigure")
    spoil_partitions(site)
    said = refused(site)
    for words in ("Partition half shares 2 nodes", "up to 600 s", "PreemptExemptTime: 00:02:00", "began last"):
        assert words in said
    for mend in mends(said):
        if not mend.startswith("scontrol"):
            configure(site, mend)
    admin(site, "scontrol reconfigure")
    spoil_partitions(site)
    for mend in mends(refused(site)):
        admin(site, mend)
    assert "began last" not in accepted(site)


def spoil_partitions(site: Site) -> None:
    admin(site, "scontrol update PartitionName=half PriorityTier=1")
    admin(site, "scontrol update PartitionName=freetrain GraceTime=600")


def test_a_partition_of_the_sites_own_is_refused(site: Site) -> None:
    said = refused(site, partition="main")
    assert "is Slurm's default" in said
    assert mends(said) == ["[slurm]", 'partition = "freetrain"']


@pytest.mark.soak
def test_who_begins_to_wait_because_the_layout_was_changed_gets_the_nodes_at_once(site: Site) -> None:
    with running(site):
        site.submit_trainer("alice", NODES, "min=1")
        wait_until(lambda: lent(site) == NODES, 60, site)
        admin(site, "scontrol update PartitionName=debug PriorityTier=1")
        # The daemon sees nothing until Slurm has planned the job for the end of the fragments: the worst case.
        daemon = site._daemon
        assert daemon is not None
        daemon.send_signal(signal.SIGSTOP)
        try:
            job = submit_to(site, "debug")
            wait_until(lambda: site.run("bob", "squeue", "-h", "-j", job, "-o", "%Y") != "(null)", 60, site)
            planned_s = float(site.run("bob", "squeue", "-h", "-j", job, "-o", "%S"))
            assert planned_s > time.time() + 3600, "Slurm lets it wait for the fragments' limit"
        finally:
            daemon.send_signal(signal.SIGCONT)
        wait_until(lambda: started(site, job), 30, site)
        assert f"job {job} of partition debug would wait for fragments" in site.daemon_says

        wait_until(lambda: "has PriorityTier=1, not more than its 1" in site.daemon_says, 60, site)
        wait_until(lambda: lent(site) == 0, 60, site)
        daemon.send_signal(signal.SIGHUP)
        wait_until(lambda: "the settings stay as they are" in site.daemon_says, 60, site)
        admin(site, "scontrol update PartitionName=debug PriorityTier=5")
        daemon.send_signal(signal.SIGHUP)
        wait_until(lambda: lent(site) == NODES, 60, site)
        assert site.daemon_says.count("would wait for fragments") == 1


@pytest.mark.soak
def test_a_second_daemon_with_another_directory_is_refused_until_the_first_is_gone(site: Site) -> None:
    with running(site):
        second = run_daemon(site, "another")
        assert (second.returncode, f"its state in {site.directory}/state" in second.stderr) == (75, True)
        site.kill_daemon()
        assert run_daemon(site, "another").returncode == 75, "nobody knows yet whether it is gone"
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
        wait_until(lambda: site.daemon_says.count("mode act") == 2, 30, site)
        mark = site.run("bob", "squeue", "-h", "-a", "-n", "freetrain-daemon", "-o", "%i")
        assert mark.isdigit(), "one mark, of the one that runs"
    assert run_daemon(site, "another").returncode == 0


@several_people
def test_with_preemption_by_qos_each_qos_of_the_site_must_preempt_that_of_fragments(site: Site) -> None:
    site.lab.stop_controller()
    configure(site, "PreemptType=preempt/qos")
    site.lab.start_controller()
    admin(site, "sacctmgr -i add qos urgent")
    said = refused(site)
    assert "admits every QOS" in said
    assert "sacctmgr -i modify qos urgent set Preempt+=freetrain" in mends(said)
    settings = ["[slurm]", 'qos = "freetrain"']
    assert set(settings) <= set(mends(said))
    for mend in mends(said):
        if mend not in settings:
            admin(site, mend)
    admin(site, "sacctmgr -i modify account ml set qos+=freetrain")
    # Slurm hears of it from accounting. The daemon that runs below has no slurm.qos: the partition is the fence.
    wait_until(lambda: run_daemon(site, "once", qos="freetrain").returncode == 0, 60, site)
    admin(site, "scontrol update PartitionName=freetrain AllowQos=freetrain")
    with running(site):
        assert "no mark can be left" not in site.daemon_says
        options = ("--parsable", "--hold", "--array=0-3", "-N1", "--requeue", "-p", "freetrain", "-o", "/dev/null")
        script = "#!/bin/sh\nsrun --quiet sleep 600\n"
        site.run("alice", "sbatch", *options, "--qos=freetrain", "--comment=freetrain:min=1", stdin=script)
        wait_until(lambda: lent(site) == NODES, 60, site)
        job = site.submit(SiteJob(0, NODES, 2, 1))
        wait_until(lambda: started(site, job), 60, site)
