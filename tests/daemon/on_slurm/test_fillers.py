"""Arrays of ordinary tasks beside a training on a real Slurm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import (
    POLL_S,
    daemon_that_polls_every,
    in_slurm,
    in_the_ledger,
    lent,
    site_of,
    wait_until,
)

pytestmark = pytest.mark.slurm

NODES, TASKS, FAILING = 4, 10, 9
LONGEST_S = 24 * 3600
TASK = """#!/bin/bash
export FREETRAIN_UNTIL=$(SLURM_TIME_FORMAT=%s squeue -h -j "$SLURM_JOB_ID" -o %e)
echo "$(date +%s) $FREETRAIN_UNTIL" >> {out}/task-$SLURM_ARRAY_TASK_ID
[ $SLURM_ARRAY_TASK_ID -ge 4 ] || while [ ! -e {out}/go-on ]; do sleep 0.2 || exit; done
sleep 1 || exit
[ $SLURM_ARRAY_TASK_ID -ne {failing} ] || exit 3
echo done >> {out}/task-$SLURM_ARRAY_TASK_ID
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with site_of(LabOptions(nodes=NODES, accounting=True)) as site:
        yield site


def ends_of(site: Site, array: str) -> Counter[str]:
    """How often its tasks ended in which way, as accounting says."""
    return Counter(run.state.split()[0] for run in site.accounting("freetrain") if run.id.startswith(f"{array}_"))


def test_every_task_completes_once_though_nodes_are_taken_back_and_the_daemon_is_killed(site: Site) -> None:
    out = site.out / "tasks"
    out.mkdir()
    out.chmod(0o777)
    with daemon_that_polls_every(POLL_S, site, NODES):
        training = site.submit_trainer("alice", 2, "min=1")
        array = site.submit_trainer("bob", TASKS, "kind=tasks,shortest=1", TASK.format(out=out, failing=FAILING))
        wait_until(lambda: lent(site, array) == lent(site, training) == 2, 30, site)

        job = site.submit(SiteJob(0, 3, 3, 1))
        wait_until(lambda: job in site.started_s(), 10, site)
        site.kill_daemon()
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
        (out / "go-on").touch()
        complete = f"trainer {array} of {site.lab.users['bob']} is complete"
        wait_until(lambda: complete in site.daemon_says, 60, site)
        wait_until(lambda: lent(site, training) == 2 and in_the_ledger(site) == in_slurm(site), 30, site)
        # Accounting hears of ends a little later.
        had_their_turn = {"COMPLETED": TASKS - 1, "FAILED": 1}
        wait_until(lambda: ends_of(site, array).items() >= had_their_turn.items(), 30, site)

    marks = {path.name.removeprefix("task-"): path.read_text().splitlines() for path in out.glob("task-*")}
    assert {task: lines.count("done") for task, lines in marks.items()} == {
        str(task): int(task != FAILING) for task in range(TASKS)
    }
    assert ends_of(site, array).total() > TASKS, "no node was taken back"
    for lines in marks.values():
        began_s, until_s = map(int, lines[0].split())
        assert 0 < until_s - began_s <= LONGEST_S
