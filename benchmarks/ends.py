"""How long a decision takes, and how close it comes, where nodes leave at different times or differ in kind.

Run from the repository's root as ``python -m benchmarks.ends``. Figures are CPU seconds of one thread from a
problem in memory to an allocation, and the relative distance between its value and a bound on all allocations.
Beside them, with ``--whole``, what HiGHS reaches on the whole model in the same time limit.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine_facts, version_facts
from benchmarks.problems import problem_with_ends, with_kinds
from freetrain.core.decision import GOOD_ENOUGH
from freetrain.core.problem import Problem
from freetrain.core.value import total_value
from freetrain.policies.freetrain import FreeTrain, Solver
from freetrain.policies.solver.branch_and_price import solve
from freetrain.policies.solver.trainer_types import types_of

SIZES = (
    (64, 10, 4, 1),
    (256, 20, 8, 1),
    (512, 20, 10, 1),
    (4608, 100, 12, 1),
    (4608, 100, 12, 3),
    (10_000, 1000, 6, 1),
)
"""Nodes, trainers, ends, kinds of nodes."""
Costs = tuple[tuple[float, float, float, float], float]
COSTS: dict[str, Costs] = {
    "18/12/12/0": ((18.0, 12.0, 12.0, 0.0), 0.0),
    "60/60/360/60": ((60.0, 60.0, 360.0, 60.0), 0.0),
}
"""Seconds for growing, shrinking, an eviction and a start; then for the boot of a new node."""
WITH_BOOTS: dict[str, Costs] = {
    "0.3/0.3/0.3/0, boot 10": ((0.3, 0.3, 0.3, 0.0), 10.0),
    "18/12/12/0, boot 10": ((18.0, 12.0, 12.0, 0.0), 10.0),
    "60/60/360/60, boot 30": ((60.0, 60.0, 360.0, 60.0), 30.0),
    "120/60/600/120, boot 60": ((120.0, 60.0, 600.0, 120.0), 60.0),
}

Outcome = tuple[float, float]
"""CPU seconds, and the relative gap."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one method did with the problems of one size.

    Attributes:
        nodes: of each problem.
        trainers: likewise.
        ends: times at which nodes are due back.
        type_ids: of nodes.
        costs: seconds for growing, shrinking, an eviction and a start, and for a boot where there are any.
        method: what solved them.
        seconds: CPU seconds, one for each problem.
        gaps: relative distance to the bound.
    """

    nodes: int
    trainers: int
    ends: int
    type_ids: int
    costs: str
    method: str
    seconds: tuple[float, ...]
    gaps: tuple[float, ...]


def by_columns(problem: Problem, limit_s: float) -> Outcome:
    """In this process, so that the time is the solver's alone."""
    begin_s = time.process_time()
    answer = solve(*types_of(problem), left_s=lambda: limit_s - (time.process_time() - begin_s))
    assert answer.counts is not None
    took_s = time.process_time() - begin_s
    return took_s, _gap(total_value(problem, answer.counts), answer.bound)


def by_whole_model(problem: Problem, limit_s: float) -> Outcome:
    """In the guest, as it is used; wall seconds."""
    begin_s = time.perf_counter()
    allocation = FreeTrain(Solver.HIGHS, limit_s).decide(problem)
    took_s = time.perf_counter() - begin_s
    bound = np.inf if allocation.bound is None else allocation.bound
    return took_s, _gap(total_value(problem, allocation.counts), bound)


def measure(
    sizes: Sequence[tuple[int, int, int, int]],
    costs: dict[str, Costs],
    seeds: Sequence[int],
    limit_s: float,
    *,
    whole: bool,
) -> list[Row]:
    """Each method on the same problems."""
    methods: dict[str, Callable[[Problem, float], Outcome]] = {"columns": by_columns}
    if whole:
        methods["whole model in HiGHS"] = by_whole_model
    by_columns(problem_with_ends(0, 2, 4, 2, (18.0, 12.0, 12.0, 0.0)), 1.0)
    rows = []
    for nodes, trainers, ends, type_ids in sizes:
        for name, (changes, boot_s) in costs.items():
            problems = [problem_with_ends(seed, trainers, nodes, ends, changes, boot_s=boot_s) for seed in seeds]
            if type_ids > 1:
                problems = [with_kinds(one, seed, type_ids, orderly=True) for seed, one in enumerate(problems)]
            for method, run in methods.items():
                seconds, gaps = zip(*(run(problem, limit_s) for problem in problems), strict=True)
                rows.append(Row(nodes, trainers, ends, type_ids, name, method, seconds, gaps))
    return rows


def _gap(value: float, bound: float) -> float:
    return float(max(0.0, bound - value) / max(abs(bound), 1e-9)) if np.isfinite(bound) else np.inf


def as_table(rows: Sequence[Row]) -> Table:
    """Medians and 95th percentiles."""
    table = Table(title="One decision where nodes are due back", caption=f"good enough: {GOOD_ENOUGH:.2%}")
    for heading in (
        "nodes",
        "trainers",
        "ends",
        "kinds",
        "costs",
        "method",
        "s p50",
        "s p95",
        "gap p50",
        "gap p95",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        times, gaps = (np.percentile(each, (50, 95), method="higher") for each in (row.seconds, row.gaps))
        size = (f"{row.nodes:,}", f"{row.trainers:,}", str(row.ends), str(row.type_ids), row.costs, row.method)
        table.add_row(*size, *(f"{each:.3f}" for each in times), *(f"{each:.3%}" for each in gaps))
    return table


def main() -> None:
    """Measure, print a table, and write a JSON file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ends", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to this file")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="problems of each size")
    parser.add_argument("--limit", type=float, default=5.0, metavar="SECONDS", help="for one decision")
    parser.add_argument("--whole", action="store_true", help="the whole model in HiGHS, too")
    parser.add_argument("--boot", action="store_true", help="four costs, where new nodes must boot")
    parser.add_argument("--quick", action="store_true", help="one problem of the smallest size")
    given = parser.parse_args()
    sizes, seeds = (SIZES[:1], range(1)) if given.quick else (SIZES, range(given.seeds))
    costs = WITH_BOOTS if given.boot else COSTS
    rows = measure(sizes, costs, seeds, given.limit, whole=given.whole)
    Console().print(as_table(rows))
    if given.json:
        facts = {"machine": machine_facts(), "versions": version_facts("freetrain", "highspy", "numpy")}
        given.json.write_text(json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
