"""Arrays of ordinary tasks, of one node beside a training and of several each, on a real Slurm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from freetrain.store.store import Store
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
SEVERAL = 3
TASK_OF_SEVERAL = """#!/bin/bash
nodes=$(srun bash -c 'echo $SLURMD_NODENAME' | sort -u | wc -l) || exit
echo "$SLURM_JOB_NUM_NODES $nodes" >> {out}/task-$SLURM_ARRAY_TASK_ID
while [ ! -e {out}/go-on ]; do sleep 0.2 || exit; done
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


def sizes_in_slurm(site: Site, array: str) -> dict[str, int]:
    text = site.run("bob", "squeue", "-h", "-a", "-t", "R", "-j", array, "-o", "%i %D")
    return {job: int(nodes) for job, nodes in (line.split() for line in text.splitlines())}


def sizes_in_the_ledger(site: Site) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for fragment in Store.open_existing(site.directory / "state" / "freetrain.db").ledger().open_fragments():
        sizes[fragment.job] = sizes.get(fragment.job, 0) + 1
    return sizes


@pytest.mark.soak
def test_tasks_start_on_as_many_nodes_as_fit_and_are_requeued_whole(site: Site) -> None:
    out = site.out / "moldable"
    out.mkdir()
    out.chmod(0o777)
    with daemon_that_polls_every(POLL_S, site, NODES):
        array = site.submit_trainer("bob", SEVERAL, "kind=tasks,nodes=2-4", TASK_OF_SEVERAL.format(out=out))
        wait_until(lambda: sum(sizes_in_slurm(site, array).values()) == NODES, 30, site)
        begun = sizes_in_slurm(site, array)
        assert all(2 <= size <= 4 for size in begun.values())
        wait_until(lambda: len([*out.glob("task-*")]) == len(begun), 20, site)

        job = site.submit(SiteJob(0, 1, 3, 1))
        wait_until(lambda: job in site.started_s(), 10, site)
        site.kill_daemon()
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
        wait_until(lambda: sizes_in_the_ledger(site) == sizes_in_slurm(site, array) != {}, 30, site)
        (out / "go-on").touch()
        complete = f"trainer {array} of {site.lab.users['bob']} is complete"
        wait_until(lambda: complete in site.daemon_says, 60, site)
        wait_until(lambda: ends_of(site, array)["COMPLETED"] == SEVERAL, 30, site)

    marks = {path.name.removeprefix("task-"): path.read_text().splitlines() for path in out.glob("task-*")}
    assert {task: lines.count("done") for task, lines in marks.items()} == {
        str(task): 1 for task in range(SEVERAL)
    }
    runs = [line.split() for lines in marks.values() for line in lines if line != "done"]
    assert len(runs) > SEVERAL, "no node was taken back"
    assert all(told == counted and 2 <= int(told) <= 4 for told, counted in runs)
