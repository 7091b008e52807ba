"""A submitit script with one word changed, on a real Slurm that takes the nodes of its functions back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, nodes_of, site_of, wait_until

pytestmark = pytest.mark.slurm
pytest.importorskip("submitit", reason="submitit is not installed")

NODES = 2
PREEMPTIONS = int(os.environ.get("FREETRAIN_PREEMPTIONS", "1"))
GOAL = 60 * PREEMPTIONS
SCRIPT = """
import json, os, sys, time
import submitit

class Count(submitit.helpers.Checkpointable):
    def __init__(self, marks):
        self.reached, self.marks = 0, marks

    def __call__(self, goal):
        while self.reached < goal:
            if self.reached == goal - 1 and not os.path.exists(f"{self.marks}/../go"):
                time.sleep(0.1)
                continue
            self.reached += 1
            with open(f"{self.marks}/{submitit.JobEnvironment().job_id}", "a") as file:
                print(self.reached, file=file)
            time.sleep(0.1)
        return self.reached

    def checkpoint(self, *arguments):
        # Longer than a signal takes to end all that does not heed it.
        time.sleep(3)
        return super().checkpoint(*arguments)

executor = submitit.AutoExecutor(folder="jobs", cluster="freetrain")
executor.update_parameters(timeout_min=1, name="count", mem_gb=0.1)
jobs = executor.map_array(Count(sys.argv[1]), [int(sys.argv[2])] * 2)
print(jobs[0].job_id.partition("_")[0], flush=True)
print(json.dumps([job.result() for job in jobs]))
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with site_of(LabOptions(nodes=NODES, accounting=True)) as site:
        yield site


def take_all_nodes(site: Site) -> None:
    """A job of the site's has all nodes for a moment."""
    job = site.submit(SiteJob(0, NODES, 1, 1))
    wait_until(lambda: job in site.started_s(), 30, site)
    site.wait_for([job], 120)


def test_functions_go_on_where_they_were_when_their_nodes_are_taken(site: Site) -> None:
    script, marks = site.out / "count.py", site.out / "marks"
    script.write_text(SCRIPT)
    marks.mkdir()
    marks.chmod(0o777)
    with daemon_that_polls_every(POLL_S, site, NODES):
        environment = {**site.environment, "FREETRAIN_CONFIG": str(site.directory / "freetrain.toml")}
        submitted = subprocess.Popen(
            site.command("alice", sys.executable, str(script), str(marks), str(GOAL)),
            env=environment, cwd=site.out, text=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert submitted.stdout is not None
        array = submitted.stdout.readline().strip()
        assert array
        for taken in range(PREEMPTIONS):
            count = NODES * (taken + 1)
            wait_until(
                lambda count=count: runs_begun(site, array) >= count and has_counted(marks, array), 60, site
            )
            wait_until(lambda: len(nodes_of(site, array)) == NODES, 60, site)
            take_all_nodes(site)
        (site.out / "go").touch()
        out, _ = submitted.communicate(timeout=600)

    assert json.loads(out) == [GOAL, GOAL]
    for path in Path(marks).iterdir():
        counted = Counter(map(int, path.read_text().split()))
        assert sorted(counted) == list(range(1, GOAL + 1)), "a step was left out"
        # What it had just begun is done once more, and nothing else.
        assert counted.total() <= GOAL + PREEMPTIONS
    ends = Counter(run.state.split()[0] for run in site.accounting("freetrain") if run.id.startswith(array))
    assert ends["COMPLETED"] == NODES, ends
    # By submitit's own logs: accounting may miss a run that is requeued.
    assert runs_begun(site, array) >= NODES * (PREEMPTIONS + 1), ends


def runs_begun(site: Site, array: str) -> int:
    logs = (site.out / "jobs").glob(f"{array}_*_log.out")
    return sum(path.read_text().count("Starting with") for path in logs)


def has_counted(marks: Path, array: str) -> bool:
    return len(list(marks.glob(f"{array}_*"))) == NODES
