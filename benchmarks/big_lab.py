"""A lab filled like a large machine: jobs run on its imaginary nodes, others wait, arrays carry tags."""

from __future__ import annotations

import os
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rich.progress import track

from freetrain.lab import Lab, LabOptions

SETTINGS = {"MaxJobCount": "100000", "SchedulerType": "sched/builtin"}
_RUNNING_NODES = 3
_SCRIPT = "#!/bin/sh\nsleep 1\n"


@dataclass(frozen=True, slots=True)
class Load:
    """What is submitted to the lab.

    Attributes:
        nodes: imaginary ones.
        jobs: all that squeue shows, an array whose tasks wait once.
        trainers: tagged arrays, trainings with ``tasks`` tasks each.
        fillers: more of them, with a thousand independent tasks each.
        uids: whose the arrays are, by turns; none: those of the lab's users.
    """

    nodes: int = 8000
    jobs: int = 11_500
    trainers: int = 20
    tasks: int = 600
    fillers: int = 0
    uids: tuple[int, ...] = ()


USUAL = Load()


def make_big_lab(directory: Path, port: int, load: Load = USUAL) -> Lab:
    """A lab with a quarter of its nodes idle, which takes some minutes.

    Imaginary nodes carry jobs as long as nobody has a process to start there: these are bare allocations. Of those
    that wait none may start, since Slurm would send their scripts to nobody: the first one in the queue waits for
    the whole machine, and nobody overtakes it. More than half of the others are held; the rest want more than is
    idle, since what could start at once would claim its nodes.
    """
    nodes = load.nodes
    lab = Lab.up(directory, LabOptions(nodes=1, fake=nodes, base_port=port, settings=SETTINGS))
    draw = random.Random(0)
    alice, bob = lab.users["alice"], lab.users["bob"]
    running = nodes * 3 // 4 // _RUNNING_NODES
    for _ in track(range(running), "jobs that run"):
        _do(lab, f"salloc -Q --no-shell -I -N{_RUNNING_NODES} -t {draw.randrange(60, 360)} -p main --uid={alice}")
    _do(lab, f"sbatch -Q -N{nodes + 1} -t 720 -p main --uid={bob} --comment=first")
    for number in track(range(load.jobs - running - load.trainers - load.fillers - 1), "jobs that wait"):
        user, held = draw.choice((alice, bob)), draw.random() < 0.6
        size = draw.choice((1, 2, 4, 16, 64, 200, 500) if held else (3000, 4000, 6000))
        hold = "--hold" if held else ""
        array = f"--array={draw.choice(('0-9', '3,7-40%4', '1-99:2'))}" if draw.random() < 0.1 else ""
        limit_min = draw.randrange(720, 4000)
        _do(lab, f"sbatch -Q -N{size} -t {limit_min} -p main --uid={user} --comment=job{number} {hold} {array}")
    uids = load.uids or (alice, bob)
    trainings = [
        f"--array=0-{load.tasks - 1} --comment=freetrain:min=1,max={load.tasks // 2 + number}"
        for number in range(load.trainers)
    ]
    fillers = ["--array=0-999 --comment=freetrain:kind=tasks"] * load.fillers
    for number, array in enumerate(trainings + fillers):
        _do(lab, f"sbatch -Q -N1 -t 1440 -p freetrain --uid={uids[number % len(uids)]} --hold --requeue {array}")
    return lab


def _do(lab: Lab, command: str) -> None:
    subprocess.run(
        command.split(),
        input=_SCRIPT,
        env={**os.environ, **lab.environment},
        cwd="/",
        text=True,
        stdout=subprocess.DEVNULL,
        check=True,
    )
