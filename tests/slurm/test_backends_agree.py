"""Both doors to the Slurm that runs here, side by side. Only looks; fill the cluster with jobs before.

Skipped where pyslurm is not installed: there is none for the Slurm 22.05 of Debian's packages, which CI has.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.slurm import commands
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import SlurmError, SlurmMissingError
from freetrain.slurm.opening import open_gateway

pytestmark = pytest.mark.slurm

MOST_TRIES = 5


def plain(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, time_s=0.0, jobs=tuple(sorted(snapshot.jobs, key=lambda job: job.id)))


def test_both_see_the_same() -> None:
    try:
        CommandLine().perform(commands.ping())
    except SlurmError as error:
        pytest.skip(f"no Slurm here: {error.what}")
    try:
        through_pyslurm = open_gateway("pyslurm", 30.0)
    except SlurmMissingError as error:
        pytest.skip(error.what)
    for _ in range(MOST_TRIES):
        before = plain(CommandLine().snapshot())
        found = plain(through_pyslurm.snapshot())
        if before == plain(CommandLine().snapshot()):  # nothing happened in between
            break
    assert found.rejected == ()
    assert found.nodes == before.nodes
    assert found.job == before.job
    assert found == before
