"""Recordings that need no log: random walks of a daemon on the imagined Slurm, and random decision problems."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.problems import NOW_S, random_problem
from freetrain.core.place import Place
from freetrain.loop.deciding import decide
from freetrain.policies import find_policy
from freetrain.slurm.errors import SlurmUnreachableError
from tests.daemon.conftest import start_daemon
from tests.daemon.fake_slurm import FakeSlurm
from tests.daemon.test_crashes import EVENTS, happen
from tests.golden.recorder import Row, recorded

WALKS, EVENTS_OF_A_WALK, PROBLEMS = 40, 30, 2000
ENDS_S = (None, 30.0, 90.0, 100.0, 600.0)
OBJECTIVES = ("throughput", "speedup", "weighted")


def walks(count: int = WALKS) -> list[Row]:
    """The looks of daemons on as many imagined Slurms, to which things happen at random."""
    rows: list[Row] = []
    for seed in range(count):
        with TemporaryDirectory() as folder, recorded(rows.append):
            _walk(random.Random(seed), Path(folder))
    return rows


def _walk(draw: random.Random, folder: Path) -> None:
    slurm = FakeSlurm()
    start = start_daemon.__wrapped__(slurm, folder)  # type: ignore[attr-defined]
    slurm.submit_array("freetrain:min=1", tasks=6)
    daemon = start()
    for _ in range(EVENTS_OF_A_WALK):
        event = draw.choice(EVENTS)
        happen(slurm, event, draw.randint(0, 7))
        if event == "restart":
            daemon = start()
        with suppress(SlurmUnreachableError):
            daemon.cycle()
        slurm.deaf_after, slurm.away = None, False


def _with_end(place: Place, draw: random.Random) -> Place:
    ahead_s = draw.choice(ENDS_S)
    return place if ahead_s is None else replace(place, until_s=NOW_S + ahead_s)


def problems(count: int = PROBLEMS) -> list[Row]:
    """Decisions of the default policy on as many random problems of 1 to 12 trainers and 1 to 64 nodes."""
    policy, rows = find_policy("freetrain"), []
    for seed, objective in enumerate(islice(cycle(OBJECTIVES), count)):
        draw = random.Random(seed)
        horizon_s = draw.choice((60.0, 120.0, 1200.0))
        problem = random_problem(
            seed, draw.randint(1, 12), draw.randint(1, 64), horizon_s=horizon_s, objective=objective
        )
        if draw.random() < 0.5:
            problem = replace(problem, nodes=tuple(_with_end(place, draw) for place in problem.nodes))
        decision = decide(policy, problem, lambda: 0.0)
        placement = {trainer: list(names) for trainer, names in decision.placement.items()}
        rows.append(json.dumps([seed, "decision", objective, [decision.objective, decision.solver, placement]]))
    return rows
