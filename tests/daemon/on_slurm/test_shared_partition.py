"""Fragments in the site's own partitions of a real Slurm: its jobs take nodes from them by QOS."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from benchmarks.live.site import TRAINER, Site
from benchmarks.live.workload import SiteJob
from freetrain.core.fragment import End
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, ledger_ends, site_of, wait_until
from tests.needed import several_people

pytestmark = [pytest.mark.slurm, several_people]

NODES = 2
QUEUE = '[slurm]\npartition = "first,last"\nqos = "spare"\n'
PARTITIONS = {"first": "Nodes=n001", "last": "Nodes=n002"}
LONG_EXEMPT_S, SHORT_EXEMPT_S = 60, 20
"""Within the first, as long as it may be, freetrain must have given nodes back; the second is waited for."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A Slurm that preempts by QOS, and has none yet that may be preempted."""
    with site_of(
        LabOptions(nodes=NODES, accounting=True, partitions=PARTITIONS), {"PreemptType": "preempt/qos"}
    ) as site:
        yield site


def admin(site: Site, command: str) -> None:
    done = subprocess.run(shlex.split(command), env=site.environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def mends(site: Site) -> list[str]:
    """The commands that 'config check' prints, apart from those that close freetrain's usual partition."""
    path, state = site.directory / "check.toml", site.directory / "checked"
    state.mkdir(exist_ok=True)
    shutil.chown(state, site.lab.users["daemon"])
    path.write_text(f'{QUEUE}[state]\ndirectory = "{state}"\n')
    done = site.freetrain(
        "root", "config", "check", "--config", str(path), "--user", site.lab.users["daemon"], "--json"
    )
    found = json.loads(done.stdout)["findings"]
    lines = [mend["line"] for finding in found for mend in finding["mends"] if mend["place"] == "run"]
    return [line for line in dict.fromkeys(lines) if "PartitionName" not in line]


def mended(site: Site) -> bool:
    """Whether nothing is left to be done; what is, is done."""
    found = mends(site)
    for mend in found:
        admin(site, mend)
    return not found


def exempt(site: Site, seconds: int) -> None:
    """Let Slurm preempt no fragment that has not run for so long."""
    admin(site, f"sacctmgr -i modify qos spare set PreemptExemptTime=00:{seconds // 60:02}:{seconds % 60:02}")


def submit_trainer(site: Site) -> str:
    return site.run(
        "alice", "sbatch", "--parsable", "--hold", f"--array=0-{NODES - 1}", "-N1", "--requeue",
        "-p", "first,last", "--qos=spare", "--comment=freetrain:min=1", "-o", "/dev/null", stdin=TRAINER,
    )  # fmt: skip


def of(site: Site, job: str, what: str) -> list[str]:
    """What squeue says of a job, or of each task of an array."""
    return site.run("bob", "squeue", "-h", "-a", "-r", "-t", "all", "-j", job, "-o", what).split()


def test_a_job_of_the_sites_takes_nodes_by_qos_and_freetrain_gives_them_back_before(site: Site) -> None:
    found = mends(site)
    assert "sacctmgr -i modify qos normal set Preempt+=spare" in found
    for mend in found:
        admin(site, mend)
    wait_until(lambda: mended(site), 30, site)  # slurmctld hears of it from accounting
    exempt(site, LONG_EXEMPT_S)
    with daemon_that_polls_every(POLL_S, site, NODES, more=QUEUE):
        array = submit_trainer(site)
        wait_until(lambda: of(site, array, "%T") == ["RUNNING"] * NODES, 30, site)
        begun_s = max(map(float, of(site, array, "%S")))

        job = site.submit(SiteJob(0, NODES, 2, 1))
        wait_until(lambda: job in site.started_s(), 30, site)
        assert site.started_s()[job] - begun_s < LONG_EXEMPT_S, "Slurm would not have preempted them yet"
        wait_until(lambda: of(site, array, "%T") == ["RUNNING"] * NODES, 60, site)
        assert set(ledger_ends(site, array)) == {End.RELEASED}
        exempt(site, SHORT_EXEMPT_S)
        begun_s = max(map(float, of(site, array, "%S")))

        site.signal_daemon(signal.SIGSTOP)
        try:
            job = site.submit(SiteJob(0, NODES, 2, 1))
            wait_until(lambda: job in site.started_s(), 60, site)
        finally:
            site.signal_daemon(signal.SIGCONT)
        assert site.started_s()[job] - begun_s >= SHORT_EXEMPT_S, "by Slurm alone"
        wait_until(lambda: End.PREEMPTED in ledger_ends(site, array), 30, site)
        assert "would wait for fragments" not in site.daemon_says
