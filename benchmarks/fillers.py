"""``python -m benchmarks.fillers``: ordinary tasks beside two trainings on a virtual site with jobs of its own.

Needs to be root, and 10 minutes. The trainings are programs that leave on SIGTERM and do nothing besides. A task
has a whole node, or, with --shared, one GPU of a node.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click

from benchmarks.live import gpu_figures, shared, woken
from benchmarks.live.figures import holes_of, lent_within_s
from benchmarks.live.site import TRAINER, Ran, Site
from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples

SHORTEST_S, LONGEST_S = 5.0, 60.0
TRAININGS = ((32, "min=1", "1"), (8, "min=2", "2"))
"""Tasks, tag, and of shared nodes the GPUs of each; both are one user's, and the filler another's."""
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
        idle_s: node-seconds in holes of 15 s and more until then, or GPU-seconds.
        lent_share: of these, to anybody.
        useful_share: the same without runs of tasks that were cut off.
        tasks_share: of these, to runs of tasks that completed. The rest of what was useful had the trainings; they
            do nothing, so what real ones need to begin counts as useful.
        busy_s: until the last of the site's jobs was submitted, if tasks were left until then.
        busy_lent_share: as above, of what was idle until then.
        busy_useful_share: likewise.
    """

    tasks: int
    done_once: int
    done_again: int
    completed: int
    cut_off: int
    wall_s: float
    idle_s: float
    lent_share: float
    useful_share: float
    tasks_share: float
    busy_s: float
    busy_lent_share: float
    busy_useful_share: float


Lent = tuple[float, float, float]
"""Of a time: seconds idle, lent, and lent to runs of tasks that were cut off, in holes of 15 s and more."""


@dataclass(frozen=True)
class Kind:
    """A kind of site.

    Attributes:
        up: starts one, in a directory, with so many nodes, from a port on.
        start_daemon: starts its daemon.
        submit: hands in somebody's array: so many tasks, a tag, the GPUs of each, and the script.
        draw: the site's own jobs: for how many nodes, seconds, share of the machine, seed.
        runs: all runs of fragments.
        lent_in: what was lent, in a time, of which runs were cut off.
        nodes: that it has; 0: as many as one likes.
    """

    up: Callable[[Path, int, int], Site]
    start_daemon: Callable[[Site], None]
    submit: Callable[[Site, str, int, str, str, str], str]
    draw: Callable[[int, float, float, int], list[SiteJob]]
    runs: Callable[[Site], list[Ran]]
    lent_in: Callable[[Site, Sequence[Ran], Sequence[Ran], tuple[float, float]], Lent]
    nodes: int = 0


def _lent_of_nodes(site: Site, lent: Sequence[Ran], cut_off: Sequence[Ran], window_s: tuple[float, float]) -> Lent:
    holes = holes_of(site.accounting("main"), site.lab.node_names, *window_s)
    lent_s, idle_s = lent_within_s(lent, holes, woken.SHORTEST_HOLE_S)
    return idle_s, lent_s, lent_within_s(cut_off, holes, woken.SHORTEST_HOLE_S)[0]


def _lent_of_gpus(site: Site, lent: Sequence[Ran], cut_off: Sequence[Ran], window_s: tuple[float, float]) -> Lent:
    """What is lent for nothing is what less is lent without the runs that were cut off."""
    own = site.accounting(",".join(("main", *shared.PARTITIONS)), "normal")
    useful = [run for run in lent if run not in cut_off]
    least_s = shared.SHORTEST_HOLE_S
    sums = [
        gpu_figures.gpu_seconds(
            own, runs, dict.fromkeys(site.lab.node_names, shared.GPUS), window_s, 0.0, (least_s,)
        ).in_holes[least_s]
        for runs in (lent, useful)
    ]
    (idle_s, lent_s), (_, useful_s) = sums
    return idle_s, lent_s, lent_s - useful_s


def _up_shared(directory: Path, nodes: int, port: int) -> Site:
    site = Site(directory, shared.options_of_shares(directory, port, woken.POLL_S))
    shared.set_up_qos(site)
    return site


WHOLE = Kind(
    up=lambda directory, nodes, port: Site(directory, woken.options_with_wakes(directory, nodes, port)),
    start_daemon=woken.start_daemon,
    submit=lambda site, person, tasks, tag, gpus, script: site.submit_trainer(person, tasks, tag, script),
    draw=lambda nodes, for_s, load, seed: draw(read_samples(SAMPLE_LOG), nodes, for_s, load, seed),
    runs=lambda site: site.accounting("freetrain"),
    lent_in=_lent_of_nodes,
)
SHARED = Kind(
    up=_up_shared,
    start_daemon=partial(shared.start_daemon, interval_s=woken.POLL_S),
    submit=shared.submit_part,
    draw=lambda nodes, for_s, load, seed: shared.draw_shares(for_s, load, seed),
    runs=lambda site: site.accounting("main", shared.QOS),
    lent_in=_lent_of_gpus,
    nodes=shared.NODES,
)


@click.command()
@click.option("--shared", "is_shared", is_flag=True, help="Nodes of eight GPUs that jobs share.")
@click.option("--nodes", default=32, show_default=True, help="Of whole nodes; there are 4 that jobs share.")
@click.option("--tasks", default=200, show_default=True)
@click.option("--minutes", default=8.0, show_default=True, help="The site's jobs are submitted in this time.")
@click.option("--load", default=0.3, show_default=True, help="Share of the machine that they fill.")
@click.option("--seed", default=1, show_default=True)
@click.option("--port", default=26000, show_default=True, help="First of free ports, 20 more than nodes.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
@click.option("--daemon-log", "log", type=click.Path(path_type=Path), help="Where to put what the daemon said.")
def main(
    is_shared: bool,
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
    kind = SHARED if is_shared else WHOLE
    nodes = kind.nodes or nodes
    jobs = kind.draw(nodes, minutes * 60, load, seed)
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        directory = Path(folder)
        directory.chmod(0o755)
        site = kind.up(directory, nodes, port)
        try:
            outcome = _play(site, kind, jobs, tasks, seed)
        finally:
            if log:
                shutil.copy(directory / "daemon.log", log)
            site.close()
    for name, value in asdict(outcome).items():
        click.echo(f"{name:14} {value:.3f}" if isinstance(value, float) else f"{name:14} {value}")
    if json_path:
        json_path.write_text(json.dumps(asdict(outcome)))


def _play(site: Site, kind: Kind, jobs: list[SiteJob], tasks: int, seed: int) -> Outcome:
    """Hand in all of it, and wait until the tasks are done and the site's jobs are."""
    run_s = drawn_run_s(random.Random(seed), tasks)
    kind.start_daemon(site)
    from_s = time.time()
    for most, tag, gpus in TRAININGS:
        kind.submit(site, "alice", most, tag, gpus, TRAINER)
    script = TASK.format(run_s=" ".join(map(str, run_s)), out=site.out)
    array = kind.submit(site, "bob", tasks, f"kind=tasks,shortest={SHORTEST_S:g},start=1", "1", script)
    playing = threading.Thread(target=site.play, args=(jobs,))
    playing.start()
    _wait_until_complete(site, array)
    until_s = time.time()
    playing.join()
    site.wait_for(list(site.submitted_s), 1200)
    _wait_for_accounting(site, kind, array, tasks)
    return outcome_of(site, kind, array, tasks, (from_s, until_s))


def drawn_run_s(dice: random.Random, tasks: int) -> list[float]:
    """How long each task runs."""
    return [round(dice.uniform(SHORTEST_S, LONGEST_S), 1) for _ in range(tasks)]


def _wait_until_complete(site: Site, array: str) -> None:
    while not any(line.endswith("is complete") and f" {array} " in line for line in site.daemon_says.splitlines()):
        time.sleep(1)


def _wait_for_accounting(site: Site, kind: Kind, array: str, tasks: int) -> None:
    """What runs have become is told later than their jobs are gone, on a busy machine by many seconds."""
    until_s = time.time() + 60
    while time.time() < until_s and _completed(kind.runs(site), array) < tasks:
        time.sleep(2)


def outcome_of(site: Site, kind: Kind, array: str, tasks: int, window_s: tuple[float, float]) -> Outcome:
    """What marks and accounting tell of a time."""
    done = _done(site.out)
    lent = kind.runs(site)
    of_tasks = [run for run in lent if run.id.startswith(f"{array}_")]
    cut_off = [run for run in of_tasks if run.state != "COMPLETED"]
    idle_s, lent_s, lost_s = kind.lent_in(site, lent, cut_off, window_s)
    busy_s = window_s[0], min(window_s[1], max(site.submitted_s.values()))
    busy_idle_s, busy_lent_s, busy_lost_s = kind.lent_in(site, lent, cut_off, busy_s)
    _, _, had_s = kind.lent_in(site, lent, [run for run in of_tasks if run not in cut_off], window_s)
    return Outcome(
        tasks=tasks,
        done_once=sum(count == 1 for count in done.values()),
        done_again=sum(count > 1 for count in done.values()),
        completed=_completed(lent, array),
        cut_off=len(cut_off),
        wall_s=window_s[1] - window_s[0],
        idle_s=idle_s,
        lent_share=lent_s / idle_s,
        useful_share=(lent_s - lost_s) / idle_s,
        tasks_share=had_s / idle_s,
        busy_s=busy_s[1] - busy_s[0],
        busy_lent_share=busy_lent_s / busy_idle_s,
        busy_useful_share=(busy_lent_s - busy_lost_s) / busy_idle_s,
    )


def _done(folder: Path) -> Mapping[str, int]:
    """Task → how often it says that it is done."""
    return {path.name: Counter(path.read_text().splitlines())["done"] for path in folder.glob("task-*")}


def _completed(runs: Sequence[Ran], array: str) -> int:
    return sum(run.state == "COMPLETED" and run.id.startswith(f"{array}_") for run in runs)


if __name__ == "__main__":
    main()
