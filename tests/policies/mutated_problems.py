"""Decision problems, damaged by chance, read and solved."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from benchmarks.problems import mixed_problem
from freetrain.core.problem import problem_from_json, problem_to_dict
from freetrain.loop.deciding import decide
from freetrain.policies import find_policy
from tests.fuzzing.running import Parser

POLICIES = ("freetrain", "freetrain", "freetrain", "equal-share", "greedy")
NUMBERS: list[Any] = [
    0, 1, 2, 3, 5, 17, 1e-300, 1e-9, 1e-3, 0.5, 10.0, 1e3, 1e6, 1e9, 1e12, 1e17, 1e18, 99_999, 100_000,
    1_000_000_000,
]  # fmt: skip
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 0.0, -0.0, 1e-320, 1e300, 1e308, -1e308, 10**30, 2**31, 2**63, 99_999, 100_000,
    100_001, 10**8, float("inf"), float("nan"), "", "A", "t1", "speedup", "throughput", "weighted", "none:such",
    "os:getcwd", "\ud800", "9" * 400, [], {}, "2024-06-03", "0001-01-01T00:00:00", "9999-12-31",
]  # fmt: skip
CURVES: list[Any] = [
    [[1, 1.0]], [[1, 1e308]], [[0, 0], [1, 1]], [[1, 1.0], [100_000, 2.0]], [[1, 1.0], [10**8, 2.0]],
    [[1, 5e-324], [2, 1e18]], [[1, 0.0], [2, 1.0]], [[3, 2.0]], [[1, 1e18], [2, 1e-18]],
    [[1, 1.0], [50_000, 1e18]], [[n, float(n % 7)] for n in range(1, 300)], [[1, 1e-9], [4, 1e12]],
    [[2, 0.0], [3, 0.0], [4, 1e-300]],
]  # fmt: skip


SIZES: list[Any] = [1, 2, 3, 5, 17, 300, 99_999, 1_000_000_000, 0]
FIELDS: dict[str, list[Any]] = {
    "throughput": CURVES,
    "min_nodes": SIZES,
    "max_nodes": SIZES,
    **dict.fromkeys(
        ("scale_up_s", "scale_down_s", "forced_loss_s", "start_s", "boot_s", "weight", "target_samples"), NUMBERS
    ),
}


def trial(random: random.Random, folder: Path) -> None:
    """Read and solve a damaged problem."""
    problem = problem_to_dict(mixed_problem(random.randrange(500)))
    for _ in range(random.choice([1, 2, 3, 6])):
        random.choice([_change_a_trainer] * 6 + [_change_a_node] * 2 + [_change_the_aim, _scale_all, _damage])(
            random, problem
        )
    text = json.dumps(problem)
    if random.random() < 0.05:
        at = random.randint(0, len(text))
        junk = random.choice(["", "}", '"', "[" * 2000, "\x00", "9" * 400])
        text = text[:at] + junk + text[at + random.randint(0, 9) :]
    read = problem_from_json(text.encode("utf-8", "surrogatepass"))
    policy = find_policy(random.choice(POLICIES), random.choice(["auto", "auto", "auto", "highs"]), 1.0)
    decide(policy, read, time.perf_counter)


def _change_a_trainer(random: random.Random, problem: Any) -> None:
    trainers = problem.get("trainers")
    if isinstance(trainers, list) and trainers and isinstance(trainers[0], dict):
        field = random.choice(list(FIELDS))
        trainers[0][field] = random.choice(FIELDS[field])
        random.shuffle(trainers)


def _change_a_node(random: random.Random, problem: Any) -> None:
    nodes = problem.get("nodes")
    if isinstance(nodes, list) and nodes and isinstance(nodes[0], dict):
        now = problem.get("now")
        after_s = random.choice([*NUMBERS, 1e308, -1e308])
        nodes[0]["free_until"] = now + after_s if isinstance(now, int | float) else after_s
        random.shuffle(nodes)


def _change_the_aim(random: random.Random, problem: Any) -> None:
    problem["horizon_s"] = random.choice(NUMBERS)
    problem["objective"] = random.choice(["speedup", "throughput", "weighted"])
    problem["now"] = random.choice([*NUMBERS, -1e308, 1e308])


def _scale_all(random: random.Random, problem: Any) -> None:
    """Everything fast, slow, long or short at once: products of large numbers are where arithmetic ends."""
    problem["horizon_s"] = random.choice([1e-300, 1e-9, 1e9, 1e300, 1e308])
    problem["objective"] = random.choice(["speedup", "throughput", "weighted"])
    factor = random.choice([1e-310, 1e-15, 1e12, 1e300, 1e308])
    trainers = problem.get("trainers")
    for trainer in trainers if isinstance(trainers, list) else ():
        curve = trainer.get("throughput") if isinstance(trainer, dict) else None
        if isinstance(curve, list) and all(isinstance(point, list) and len(point) == 2 for point in curve):
            trainer["throughput"] = [
                [nodes, rate * factor] for nodes, rate in curve if isinstance(rate, int | float)
            ]


def _damage(random: random.Random, record: Any) -> None:
    """Change one thing somewhere in the problem, whatever that makes of it."""
    while True:
        keys = list(record) if isinstance(record, dict) else list(range(len(record)))
        if not keys:
            return
        key = random.choice(keys)
        if not (isinstance(record[key], dict | list) and record[key] and random.random() < 0.85):
            break
        record = record[key]
    match random.choice(["replace", "remove", "repeat"]):
        case "remove":
            del record[key]
        case "repeat" if isinstance(record, list):
            record += [record[key]] * random.choice([1, 3, 200])
        case _:
            record[key] = random.choice(HOSTILE)


PARSERS = {"problems": Parser(trial)}
