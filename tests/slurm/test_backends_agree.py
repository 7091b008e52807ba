"""Both ways to Slurm, side by side.

Skipped where pyslurm is not installed: there is none for the Slurm 22.05 of Debian's packages, which CI has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.job import JobState
from freetrain.lab import Lab, LabOptions
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import PyslurmUnusableError
from freetrain.slurm.opening import open_gateway
from tests.slurm_lab import eventually, run, started_lab

pytestmark = pytest.mark.slurm

MOST_TRIES = 20


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    if find_spec("pyslurm") is None:
        pytest.skip("pyslurm is not installed: it is tested with a Slurm of its version only")
    with started_lab(LabOptions(nodes=4, gpus=1, accounting=True)) as lab:
        monkeypatch.setenv("SLURM_CONF", lab.environment["SLURM_CONF"])
        yield lab


def fill(lab: Lab) -> None:
    """Jobs of many kinds, a reservation, and a node that is out of order."""
    run(lab, "scontrol", "update", "NodeName=n004", "State=DRAIN", "Reason=test of mine")
    run(
        lab,
        "scontrol",
        "create",
        "reservation=m",
        "starttime=now+3hours",
        "duration=60",
        "nodes=n003",
        "users=root",
    )
    submit(lab, "bob", "-N1", "-t10", "-pmain")
    array = submit(lab, "alice", "--hold", "--array=0-3", "-N1", "-pfreetrain", "--comment=freetrain:min=1,max=4")
    run(lab, "scontrol", "update", f"JobId={array}_1", "ReqNodeList=n002", "TimeLimit=30", role="alice")
    run(lab, "scontrol", "release", f"{array}_1", role="alice")
    cancelled = submit(lab, "bob", "-N2", "--gpus-per-node=1", "--begin=now+1hour")
    run(lab, "scancel", cancelled)
    submit(lab, "bob", "-N3", "-t600", "--comment=weird | $(x) é")
    submit(lab, "bob", "-N1", f"--dependency=afterok:{array}")
    assert eventually(lambda: sum(job.state is JobState.RUNNING for job in CommandLine().snapshot().jobs) == 2)


def submit(lab: Lab, role: str, *options: str) -> str:
    """The job's number."""
    command = ("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 600")
    return run(lab, *command, role=role).strip()


def plain(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, time_s=0.0, jobs=tuple(sorted(snapshot.jobs, key=lambda job: job.id)))


def test_both_see_the_same(lab: Lab) -> None:
    try:
        through_pyslurm = open_gateway("pyslurm", 30.0)
    except PyslurmUnusableError as error:
        pytest.skip(error.what)
    fill(lab)
    for _ in range(MOST_TRIES):
        before = plain(CommandLine().snapshot())
        found = plain(through_pyslurm.snapshot())
        if before == plain(CommandLine().snapshot()):  # nothing happened in between
            break
    assert len(found.jobs) >= 7
    assert found.rejected == ()
    assert found.nodes == before.nodes
    assert found.job == before.job
    assert found == before
