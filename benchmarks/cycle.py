"""What one cycle of the daemon costs on a large machine: CPU of its process and of the Slurm commands it starts.

Run from the repository's root as ``python -m benchmarks.cycle``. A lab with 8,000 imaginary nodes and 11,500 jobs
is observed and advised; the daemon acts on a site of the same size that only exists as Slurm's texts. There all
lent nodes but some may stay, and the solver has one class of nodes; how long it takes for more is measured apart.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pwd
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.big_lab import Load, make_big_lab
from benchmarks.big_site import BigSite, Size
from benchmarks.machine import machine_facts, version_facts
from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.core.problem import Problem
from freetrain.daemon.admission.admission import SiteGuard
from freetrain.daemon.executor import Mode
from freetrain.daemon.lender import Lender
from freetrain.lab import Lab
from freetrain.loop.deciding import decide
from freetrain.policies import find_policy
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.journal import NewRun
from freetrain.store.store import Store

CYCLES = 12
POLL_S = 30.0
QUICK_S = 0.5
"""What the daemon lets the solver take at first."""
LEAVING = 10
"""Nodes that the site's own jobs leave between two cycles."""
HOLE_ENDS = (1, 5, 50)
MOST_RUNNING = 1000
"""All trainings compete: with the default of 100 the others of a large site would wait."""
PORT = 25_000

SETTINGS = SlurmSettings("big", "22.05.8", "preempt/partition_prio", "REQUEUE", POLL_S, 60.0, "slurm")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of the wall clock, and of CPU: this process with all its threads, and the commands it started."""

    wall_s: float
    own_s: float
    commands_s: float

    @classmethod
    def until_now(cls) -> Spent:
        """Since the process began."""
        own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(time.perf_counter(), own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime)

    def since(self, before: Spent) -> Spent:
        """What was spent in between."""
        return Spent(self.wall_s - before.wall_s, self.own_s - before.own_s, self.commands_s - before.commands_s)

    @property
    def cpu_s(self) -> float:
        """Of all processes."""
        return self.own_s + self.commands_s


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle.

    Attributes:
        spent: all of it.
        questions: commands of Slurm's that were run.
        orders: orders that were given to a site that has no commands.
        status: the solver's.
        lent: nodes lent in the end.
    """

    spent: Spent
    questions: int
    orders: int
    status: str
    lent: int


@dataclass(frozen=True)
class Measured:
    """All cycles of one case.

    Attributes:
        name: of the case.
        cycles: the first one, in which everything is new, included.
        rss_mb: resident memory in the end.
    """

    name: str
    cycles: tuple[Cycle, ...]
    rss_mb: float

    @property
    def later(self) -> tuple[Cycle, ...]:
        """All but the first two: in those the daemon meets everything, and lends what is idle."""
        return self.cycles[2:]


def look(lender: Lender, gateway: Gateway) -> Cycle:
    """Look, decide, act; once."""
    asked, orders = _counts(gateway)
    before = Spent.until_now()
    decisions = lender.look(QUICK_S)
    spent = Spent.until_now().since(before)
    asked, orders = (now - then for now, then in zip(_counts(gateway), (asked, orders), strict=True))
    status = ", ".join(sorted({f"{one.status} {one.solver}" for one in decisions}))
    return Cycle(spent, asked, orders, status, sum(map(_lent_nodes, decisions)))


def _lent_nodes(decision: Decision) -> int:
    return sum(map(len, decision.placement.values()))


def _counts(gateway: Gateway) -> tuple[int, int]:
    return gateway.calls, getattr(gateway, "orders", 0)


def measure(name: str, gateway: Gateway, mode: Mode, between: Callable[[], None], cycles: int) -> Measured:
    """Let a new daemon go through its cycles.

    Args:
        name: of the case.
        gateway: where to.
        mode: how much may be done.
        between: what happens before each cycle, which is not counted.
        cycles: how many.
    """
    between()
    with begun(gateway, mode) as (lender, _):
        done = []
        for _ in range(cycles):
            between()
            done.append(look(lender, gateway))
    return Measured(name, tuple(done), _resident_mb())


@contextlib.contextmanager
def begun(gateway: Gateway, mode: Mode) -> Iterator[tuple[Lender, Store]]:
    """A lender that begins with an empty database."""
    config = Config.model_validate({"lend": {"mode": mode.value, "max_running": MOST_RUNNING}})
    with tempfile.TemporaryDirectory(prefix="freetrain-cycle-") as directory:
        store = Store.open(Path(directory) / "freetrain.db")
        names = tuple(node.name for node in gateway.snapshot().nodes)
        run = NewRun("freetrain daemon", "", {}, time.time(), time.time(), time.time(), names)
        with store.begin_run(run, batch_decisions=1) as journal:
            guard = SiteGuard(gateway, POLL_S)
            yield Lender(config, gateway, SETTINGS, store.ledger(), journal, guard), store
            journal.finish({}, [], time.time())


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _accounts() -> tuple[int, ...]:
    """Those of this machine that begin with ``load``, for the trainings to have as many users; else none."""
    return tuple(user.pw_uid for user in pwd.getpwall() if user.pw_name.startswith("load"))


def measure_lab(directory: Path, load: Load, cycles: int) -> list[Measured]:
    """Observe and advise a real Slurm's imaginary nodes; a lab that runs in the directory is taken as it is."""
    running = (directory / "slurm.conf").exists() and Lab.find(directory).status().anything
    lab = Lab.find(directory) if running else make_big_lab(directory, PORT, load)
    os.environ.update(lab.environment)
    try:
        return [_measure_hurried(f"lab, {mode}", mode, cycles) for mode in (Mode.OBSERVE, Mode.ADVISE)]
    finally:
        if not running:
            lab.down()


def _measure_hurried(name: str, mode: Mode, cycles: int) -> Measured:
    """With a clock that skips the time between two polls: the partitions are asked for a second time, too."""
    polls = itertools.count()
    now_s = time.time()

    def skip() -> None:
        nonlocal now_s
        now_s = time.time() + POLL_S * next(polls)

    return measure(name, CommandLine(clock_s=lambda: now_s), mode, skip, cycles)


def measure_site(size: Size, cycles: int = CYCLES) -> Measured:
    """Act on a site of texts, where now and then a large job arrives."""
    site = BigSite(size)
    arriving = itertools.chain([4] * 6, [size.nodes // 16], itertools.repeat(4))
    return measure("texts, act", site, Mode.ACT, lambda: site.go_on(1.0, LEAVING, next(arriving)), cycles)


@dataclass(frozen=True, slots=True)
class Solved:
    """One quick decision.

    Attributes:
        hole_ends: different moments at which nodes leave, within the horizon or after it.
        status: the answer's.
        solver: what gave it.
        spent: for it.
        rss_mb: resident memory afterwards.
    """

    hole_ends: int
    status: str
    solver: str
    spent: Spent
    rss_mb: float


def measure_solver(size: Size) -> Solved:
    """Decide once what the daemon would have to, with its quick limit."""
    problem = first_problem(BigSite(size))
    policy = find_policy("freetrain", time_limit_s=QUICK_S)
    before = Spent.until_now()
    decision = decide(policy, problem, time.perf_counter)
    spent = Spent.until_now().since(before)
    return Solved(size.hole_ends, str(decision.status), decision.solver, spent, _resident_mb())


def first_problem(site: BigSite) -> Problem:
    """What has to be decided at the first look."""
    site.go_on(1.0, LEAVING, 4)
    with begun(site, Mode.OBSERVE) as (lender, store):
        lender.look(QUICK_S)
        problem, _ = store.decision(1, 1)
    return problem


def solver_table(solved: Sequence[Solved]) -> Table:
    """One row for each number of hole ends."""
    table = Table(title=f"One decision, with a limit of {QUICK_S:g} s for the solver")
    for heading in ("hole ends", "wall s", "CPU s", "MB"):
        table.add_column(heading, justify="right")
    table.add_column("answer")
    for each in solved:
        figures = (f"{each.spent.wall_s:.2f}", f"{each.spent.cpu_s:.2f}", f"{each.rss_mb:.0f}")
        table.add_row(str(each.hole_ends), *figures, f"{each.status}, {each.solver}")
    return table


def total_table(cases: Sequence[Measured]) -> Table:
    """One row a case."""
    table = Table(title="One cycle of the daemon: CPU seconds, Slurm's commands included")
    table.add_column("case")
    for heading in (
        "p50",
        "p95",
        "max",
        "first",
        "second",
        "wall p50",
        "wall p95",
        "questions",
        "orders",
        "lent",
        "MB",
        "solver",
    ):
        table.add_column(heading, justify="right")
    for case in cases:
        cpu_s = [each.spent.cpu_s for each in case.later]
        wall_s = [each.spent.wall_s for each in case.later]
        table.add_row(
            case.name,
            f"{statistics.median(cpu_s):.3f}",
            f"{_p95(cpu_s):.3f}",
            f"{max(cpu_s):.3f}",
            *(f"{each.spent.cpu_s:.3f}" for each in case.cycles[:2]),
            f"{statistics.median(wall_s):.3f}",
            f"{_p95(wall_s):.3f}",
            f"{max(each.questions for each in case.cycles)}",
            f"{max(each.orders for each in case.later)}",
            f"{case.cycles[-1].lent:,}",
            f"{case.rss_mb:.0f}",
            ", ".join(sorted({each.status for each in case.later})),
        )
    return table


def _p95(seconds: Sequence[float]) -> float:
    return sorted(seconds)[-1 - len(seconds) // 20]


def as_json(cases: Sequence[Measured], solved: Sequence[Solved]) -> str:
    """The figures, and on what they were taken."""
    facts = {"machine": machine_facts(), "versions": version_facts("freetrain", "highspy", "numpy")}
    return json.dumps({**facts, "cases": list(map(asdict, cases)), "solver": list(map(asdict, solved))}, indent=2)


def main() -> None:
    """Measure, print tables, and write a JSON file if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cycle", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to this file")
    parser.add_argument("--lab", type=Path, metavar="DIRECTORY", help="use the lab that runs there")
    parser.add_argument("--no-lab", action="store_true", help="texts only")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="how many of each case")
    parser.add_argument("--trainers", type=int, default=20, help="trainings")
    parser.add_argument("--fillers", type=int, default=0, help="fillers besides, with a thousand tasks each")
    arguments = parser.parse_args()
    trainers, fillers, cycles = arguments.trainers, arguments.fillers, arguments.cycles
    cases = [measure_site(Size(trainers=trainers, fillers=fillers), cycles)]
    if not arguments.no_lab:
        with tempfile.TemporaryDirectory(prefix="freetrain-lab-") as directory:
            load = Load(trainers=trainers, tasks=12_000 // trainers, fillers=fillers, uids=_accounts())
            cases += measure_lab(arguments.lab or Path(directory), load, cycles)
    console = Console(width=150)
    console.print(total_table(cases))
    solved = [measure_solver(Size(hole_ends=hole_ends)) for hole_ends in HOLE_ENDS]
    console.print(solver_table(solved))
    if arguments.json:
        arguments.json.write_text(as_json(cases, solved) + "\n")


if __name__ == "__main__":
    main()
