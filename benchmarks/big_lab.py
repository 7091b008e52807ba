"""A lab filled like a large machine: jobs run on its imaginary nodes, others wait, arrays carry tags."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from rich.progress import track

from freetrain.lab import Lab, LabOptions

SETTINGS = {"MaxJobCount": "100000", "SchedulerType": "sched/builtin"}
_RUNNING_NODES = 3
_SCRIPT = "#!/bin/sh\nsleep 1\n"


def make_big_lab(directory: Path, port: int, nodes: int = 8000, jobs: int = 11_500, trainers: int = 20) -> Lab:
    """A lab with a quarter of its nodes idle, which takes a minute or two.

    Imaginary nodes carry jobs as long as nobody has a process to start there: these are bare allocations. Of those
    that wait none may start, since Slurm would send their scripts to nobody: the first one in the queue waits for
    the whole machine, and nobody overtakes it. More than half of the others are held; the rest want more than is
    idle, since what could start at once would claim its nodes.
    """
    lab = Lab.up(directory, LabOptions(nodes=1, fake=nodes, base_port=port, settings=SETTINGS))
    draw = random.Random(0)
    alice, bob = lab.users["alice"], lab.users["bob"]
    running = nodes * 3 // 4 // _RUNNING_NODES
    for _ in track(range(running), "jobs that run"):
        _do(lab, f"salloc -Q --no-shell -I -N{_RUNNING_NODES} -t {draw.randrange(60, 360)} -p main --uid={alice}")
    _do(lab, f"sbatch -Q -N{nodes + 1} -t 720 -p main --uid={bob} --comment=first")
    for number in track(range(jobs - running - trainers - 1), "jobs that wait"):
        user, held = draw.choice((alice, bob)), draw.random() < 0.6
        size = draw.choice((1, 2, 4, 16, 64, 200, 500) if held else (3000, 4000, 6000))
        hold = "--hold" if held else ""
        array = f"--array={draw.choice(('0-9', '3,7-40%4', '1-99:2'))}" if draw.random() < 0.1 else ""
        limit_min = draw.randrange(720, 4000)
        _do(lab, f"sbatch -Q -N{size} -t {limit_min} -p main --uid={user} --comment=job{number} {hold} {array}")
    for number in range(trainers):
        user = (alice, bob)[number % 2]
        tag = f"--comment=freetrain:min=1,max={300 + number}"
        _do(lab, f"sbatch -Q -N1 -t 1440 -p freetrain --uid={user} --hold --requeue --array=0-599 {tag}")
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
