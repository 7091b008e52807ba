"""``python -m benchmarks.fillers``: ordinary tasks beside two trainings on a virtual site with jobs of its own.

Needs to be root, and 10 minutes. The trainings are programs that leave on SIGTERM and do nothing besides.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.live.figures import holes_of, lent_within_s
from benchmarks.live.site import Ran, Site
from benchmarks.live.woken import SHORTEST_HOLE_S, options_with_wakes, start_daemon
from benchmarks.live.workload import SAMPLE_LOG, draw, read_samples

SHORTEST_S, LONGEST_S = 5.0, 60.0
TRAININGS = ((32, "min=1"), (8, "min=2"))
"""Tasks and tag; both are one user's, and the filler another's."""
TASK = """#!/bin/bash
run_s=({run_s})
echo began >> {out}/task-$SLURM_ARRAY_TASK_ID
sleep ${{run_s[$SLURM_ARRAY_TASK_ID]}} || exit
echo done >> {out}/task-$SLURM_ARRAY_TASK_ID
"""


@dataclass(frozen=True)
class Outcome:
    """What it came to.

    Attributes:
        tasks: how many there were.
        done_once: how many of them say once that they are done.
        done_again: how many say it more than once.
        completed: runs of them that have completed, as accounting tells.
        cut_off: runs of them that ended otherwise.
        wall_s: until all tasks were done.
        idle_node_s: in holes of 15 s and more until then.
        lent_share: of these, to anybody.
        useful_share: the same without runs of tasks that were cut off.
    """

    tasks: int
    done_once: int
    done_again: int
    completed: int
    cut_off: int
    wall_s: float
    idle_node_s: float
    lent_share: float
    useful_share: float


@click.command()
@click.option("--nodes", default=32, show_default=True)
@click.option("--tasks", default=200, show_default=True)
@click.option("--minutes", default=8.0, show_default=True, help="The site's jobs are submitted in this time.")
@click.option("--load", default=0.3, show_default=True, help="Share of the machine that they fill.")
@click.option("--seed", default=1, show_default=True)
@click.option("--port", default=26000, show_default=True, help="First of free ports, 20 more than nodes.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
@click.option("--daemon-log", "log", type=click.Path(path_type=Path), help="Where to put what the daemon said.")
def main(
    nodes: int,
    tasks: int,
    minutes: float,
    load: float,
    seed: int,
    port: int,
    json_path: Path | None,
    log: Path | None,
) -> None:
    """Run it and print what came of it."""
    dice = random.Random(seed)
    run_s = [round(dice.uniform(SHORTEST_S, LONGEST_S), 1) for _ in range(tasks)]
    jobs = draw(read_samples(SAMPLE_LOG), nodes, minutes * 60, load, seed)
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        directory = Path(folder)
        directory.chmod(0o755)
        site = Site(directory, options_with_wakes(directory, nodes, port))
        try:
            start_daemon(site)
            from_s = time.time()
            for most, tag in TRAININGS:
                site.submit_trainer("alice", min(most, nodes), tag)
            script = TASK.format(run_s=" ".join(map(str, run_s)), out=site.out)
            array = site.submit_trainer("bob", tasks, f"kind=tasks,shortest={SHORTEST_S:g},start=1", script)
            playing = threading.Thread(target=site.play, args=(jobs,))
            playing.start()
            _wait_until_complete(site, array)
            until_s = time.time()
            playing.join()
            site.wait_for(list(site.submitted_s), 1200)
            outcome = outcome_of(site, array, tasks, from_s, until_s)
        finally:
            if log:
                shutil.copy(directory / "daemon.log", log)
            site.close()
    for name, value in asdict(outcome).items():
        click.echo(f"{name:14} {value:.3f}" if isinstance(value, float) else f"{name:14} {value}")
    if json_path:
        json_path.write_text(json.dumps(asdict(outcome)))


def _wait_until_complete(site: Site, array: str) -> None:
    while not any(line.endswith("is complete") and f" {array} " in line for line in site.daemon_says.splitlines()):
        time.sleep(1)


def outcome_of(site: Site, array: str, tasks: int, from_s: float, until_s: float) -> Outcome:
    """What marks and accounting tell of a time."""
    done = _done(site.out)
    lent = site.accounting("freetrain")
    cut_off = [run for run in lent if run.id.startswith(f"{array}_") and run.state != "COMPLETED"]
    holes = holes_of(site.accounting("main"), site.lab.node_names, from_s, until_s)
    lent_s, idle_s = lent_within_s(lent, holes, SHORTEST_HOLE_S)
    lost_s, _ = lent_within_s(cut_off, holes, SHORTEST_HOLE_S)
    return Outcome(
        tasks=tasks,
        done_once=sum(count == 1 for count in done.values()),
        done_again=sum(count > 1 for count in done.values()),
        completed=_completed(lent, array),
        cut_off=len(cut_off),
        wall_s=until_s - from_s,
        idle_node_s=idle_s,
        lent_share=lent_s / idle_s,
        useful_share=(lent_s - lost_s) / idle_s,
    )


def _done(folder: Path) -> Mapping[str, int]:
    """Task → how often it says that it is done."""
    return {path.name: Counter(path.read_text().splitlines())["done"] for path in folder.glob("task-*")}


def _completed(runs: Sequence[Ran], array: str) -> int:
    return sum(run.state == "COMPLETED" and run.id.startswith(f"{array}_") for run in runs)


if __name__ == "__main__":
    main()
