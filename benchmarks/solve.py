"""How long one decision takes: freetrain beside the published node-level model, in the same run.

Run from the repository's root as ``python -m benchmarks.solve``. Every figure is wall seconds from a problem
in memory to a proven optimum on one thread, the making of the model included; imports are not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.machine import machine_facts, version_facts
from benchmarks.problems import random_problem
from freetrain.core.decision import Status
from freetrain.core.objectives import worth_per_s
from freetrain.core.problem import Problem
from freetrain.core.terms import forget_terms
from freetrain.core.throughput import rates
from freetrain.loop.deciding import decide
from freetrain.policies import find_policy
from tests.oracle.published import solve_published

TIME_LIMIT_S = 60.0
RELATIVE_GAP = 1e-9
"""What counts as proven; freetrain uses the same."""

SHARED_SIZES = ((64, 10), (256, 10), (512, 20))
"""Nodes and trainers that the published model can cope with."""
LARGE_SIZES = ((1000, 100), (4608, 100), (10_000, 1000))

Outcome = tuple[float, bool]
"""Value of the answer, and whether it is proven optimal."""
Method = Callable[[Problem], Outcome]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one method took for problems of one size.

    Attributes:
        nodes: nodes of each problem.
        trainers: trainers of each problem.
        method: what solved them.
        seconds: wall seconds, one for each seed.
        values: value of each answer.
        proven: for each answer, whether it is proven optimal; if not, the time limit was hit.
    """

    nodes: int
    trainers: int
    method: str
    seconds: tuple[float, ...]
    values: tuple[float, ...]
    proven: tuple[bool, ...]

    @property
    def median_s(self) -> float:
        """The middle one of the times."""
        return statistics.median(self.seconds)


def measure_solve(
    sizes: Sequence[tuple[int, int]], methods: Sequence[str], seeds: Sequence[int], *, quiet: bool = True
) -> list[Timing]:
    """Time each method on the same problems, method after method for each problem.

    Args:
        sizes: (nodes, trainers) of the problems.
        methods: keys of ``METHODS``.
        seeds: one problem of each size for each seed.
        quiet: show no progress.
    """
    warm_up(methods)
    timings = []
    for nodes, trainers in sizes:
        problems = [random_problem(seed, trainers, nodes) for seed in seeds]
        runs = [
            [_timed(METHODS[method], problem) for method in methods]
            for problem in track(problems, f"{nodes} nodes × {trainers} trainers", disable=quiet)
        ]
        for method, outcomes in zip(methods, zip(*runs, strict=True), strict=True):
            seconds, values, proven = zip(*outcomes, strict=True)
            timings.append(Timing(nodes, trainers, method, seconds, values, proven))
    return timings


def warm_up(methods: Sequence[str]) -> None:
    """Solve a tiny problem with each method, so that its imports are not timed."""
    for method in methods:
        METHODS[method](random_problem(0, 2, 4))


def _timed(method: Method, problem: Problem) -> tuple[float, float, bool]:
    # Else whoever comes second would find tables and node classes ready-made.
    for cache in (worth_per_s, rates):
        cache.cache_clear()
    forget_terms()
    problem = replace(problem)
    start_s = time.perf_counter()
    value, proven = method(problem)
    return time.perf_counter() - start_s, value, proven


def _freetrain(solver: str) -> Method:
    def solve(problem: Problem) -> Outcome:
        policy = find_policy("freetrain", solver=solver, time_limit_s=TIME_LIMIT_S)
        decision = decide(policy, problem, time.perf_counter)
        return decision.objective, decision.status == Status.OPTIMAL

    return solve


def _published(problem: Problem) -> Outcome:
    answer = solve_published(problem, TIME_LIMIT_S, RELATIVE_GAP)
    return answer.objective, answer.proven


METHODS: dict[str, Method] = {
    "freetrain auto": _freetrain("auto"),
    "freetrain highs": _freetrain("highs"),
    "published model": _published,
}
OURS = ("freetrain auto", "freetrain highs")


def as_table(timings: Sequence[Timing]) -> Table:
    """One row per size and method: the median of the wall seconds and their range."""
    table = Table(title="Wall seconds for one decision", caption=f"* not proven within {TIME_LIMIT_S:g} s")
    for heading in ("nodes", "trainers"):
        table.add_column(heading, justify="right")
    table.add_column("method")
    for heading in ("p50", "min – max"):
        table.add_column(heading, justify="right")
    for previous, timing in zip((None, *timings[:-1]), timings, strict=True):
        if previous and (previous.nodes, previous.trainers) != (timing.nodes, timing.trainers):
            table.add_section()
        star = "" if all(timing.proven) else " *"
        table.add_row(
            f"{timing.nodes:,}",
            f"{timing.trainers:,}",
            timing.method,
            f"{timing.median_s:.4f}{star}",
            f"{min(timing.seconds):.4f} – {max(timing.seconds):.4f}",
        )
    return table


def as_json(timings: Sequence[Timing]) -> str:
    """The timings, and on what they were taken."""
    return json.dumps(
        {
            "machine": machine_facts(),
            "versions": version_facts("freetrain", "highspy", "pyomo", "numpy"),
            "time_limit_s": TIME_LIMIT_S,
            "relative_gap": RELATIVE_GAP,
            "timings": [{**asdict(timing), "median_s": timing.median_s} for timing in timings],
        },
        indent=2,
    )


def main() -> None:
    """Measure, print a table, and write a JSON file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solve", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="one seed, and only the smallest of each size")
    arguments = parser.parse_args()
    seeds, sizes = (range(1), 1) if arguments.quick else (range(3), None)
    timings = measure_solve(SHARED_SIZES[:sizes], tuple(METHODS), seeds, quiet=False)
    timings += measure_solve(LARGE_SIZES[:sizes], OURS, seeds, quiet=False)
    Console().print(as_table(timings))
    if arguments.json:
        arguments.json.write_text(as_json(timings) + "\n")


if __name__ == "__main__":
    main()
