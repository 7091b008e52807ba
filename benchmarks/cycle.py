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
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.big_lab import make_big_lab
from benchmarks.big_site import BigSite, Size
from benchmarks.machine import machine_facts, version_facts
from freetrain.config import Config
from freetrain.core.problem import Problem
from freetrain.daemon import live_cluster
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.live_cluster import LiveCluster
from freetrain.daemon.setup import launcher_of, manners_of
from freetrain.lab import Lab
from freetrain.loop import cycle
from freetrain.loop.cycle import Aims, run_cycle
from freetrain.loop.deciding import decide
from freetrain.policies import find_policy
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.gateway import Gateway
from freetrain.store.journal import RunJournal
from freetrain.store.ledger import Ledger
from freetrain.store.records import NewRun
from freetrain.store.store import Store

CYCLES = 12
POLL_S = 30.0
QUICK_S = 0.5
"""What the daemon lets the solver take at first."""
LEAVING = 10
"""Nodes that the site's own jobs leave between two cycles."""
HOLE_ENDS = (1, 5, 50)
PORT = 25_000

STAGES: tuple[tuple[object, str, str], ...] = (
    (CommandLine, "snapshot", "snapshot"),
    (BigSite, "snapshot", "snapshot"),
    (live_cluster, "find_submissions", "submissions"),
    (Fragments, "bring_up_to_date", "reconcile"),
    (LiveCluster, "_note_harms", "harms"),
    (LiveCluster, "_call_roll", "roster"),
    (live_cluster, "competitors", "competitors"),
    (LiveCluster, "_find_lendable", "lendable"),
    (LiveCluster, "_put_right", "put right"),
    (LiveCluster, "_give_back", "give back"),
    (cycle, "decide", "decide"),
    (LiveCluster, "act", "act"),
    (RunJournal, "record", "record"),
)


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

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall_s + other.wall_s, self.own_s + other.own_s, self.commands_s + other.commands_s)

    @property
    def cpu_s(self) -> float:
        """Of all processes."""
        return self.own_s + self.commands_s


NOTHING = Spent(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle.

    Attributes:
        spent: all of it.
        stages: parts of it.
        questions: commands of Slurm's that were run.
        orders: orders that were given to a site that has no commands.
        status: the solver's.
        lent: nodes lent in the end.
    """

    spent: Spent
    stages: dict[str, Spent]
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


@dataclass
class Stages:
    """Where time goes, by the names in ``STAGES`` and by Slurm's command."""

    spent: defaultdict[str, Spent] = field(default_factory=lambda: defaultdict(lambda: NOTHING))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Time every call of the stages meanwhile."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in STAGES]
        asking = CommandLine._ask
        for (owner, name, original), (_, _, stage) in zip(before, STAGES, strict=True):
            setattr(owner, name, self._timed(original, lambda *_, stage=stage: stage))
        setattr(CommandLine, "_ask", self._timed(asking, _question))  # noqa: B010 (mypy: a method)
        try:
            yield
        finally:
            setattr(CommandLine, "_ask", asking)  # noqa: B010
            for owner, name, original in before:
                setattr(owner, name, original)

    def _timed(self, original: Callable[..., Any], name_of: Callable[..., str]) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            before = Spent.until_now()
            try:
                return original(*args, **keywords)
            finally:
                self.spent[name_of(*args)] += Spent.until_now().since(before)

        return timed


def _question(_: CommandLine, command: Sequence[str], *_rest: object) -> str:
    return f"  {command[0]} {command[-1] if command[0] == 'scontrol' else ''}".rstrip()


@dataclass
class Daemon:
    """The daemon's inside, cycle by cycle.

    Args:
        gateway: the way to Slurm, or to what stands for it.
        mode: how much may be done.
        ledger: remembers.
        journal: keeps decisions.
    """

    gateway: Gateway
    mode: Mode
    ledger: Ledger
    journal: RunJournal

    def __post_init__(self) -> None:
        config = Config()
        executor = Executor(self.gateway, self.ledger, self.mode)
        self._cluster = LiveCluster(
            self.gateway,
            launcher_of(config, self.gateway),
            executor,
            self.ledger,
            manners_of(config, POLL_S),
            self.journal.next_decision,
        )
        self._aims = Aims(find_policy("freetrain", time_limit_s=QUICK_S), "speedup", config.decide.horizon)

    def problem(self) -> Problem:
        """Look; what would have to be decided."""
        self._cluster.look({})
        seen = self._cluster.observe()
        return Problem(seen.now_s, seen.nodes, seen.trainers, self._aims.horizon_s, self._aims.objective)

    def cycle(self) -> Cycle:
        """Look, decide, act."""
        stages = Stages()
        asked, orders = _counts(self.gateway)
        before = Spent.until_now()
        with stages.watching():
            self._cluster.look({})
            decision = run_cycle(self._cluster, self._aims, self.journal, time.perf_counter)
        spent = Spent.until_now().since(before)
        asked, orders = (now - then for now, then in zip(_counts(self.gateway), (asked, orders), strict=True))
        lent = sum(map(len, decision.placement.values()))
        return Cycle(spent, dict(stages.spent), asked, orders, f"{decision.status} {decision.solver}", lent)


def _counts(gateway: Gateway) -> tuple[int, int]:
    return getattr(gateway, "asked", 0), getattr(gateway, "orders", 0)


def measure(
    name: str, gateway: Gateway, mode: Mode, between: Callable[[], None], cycles: int = CYCLES
) -> Measured:
    """Let a new daemon go through its cycles.

    Args:
        name: of the case.
        gateway: where to.
        mode: how much may be done.
        between: what happens before each cycle, which is not counted.
        cycles: how many.
    """
    between()
    with _daemon(gateway, mode) as daemon:
        done = []
        for _ in range(cycles):
            between()
            done.append(daemon.cycle())
    return Measured(name, tuple(done), _resident_mb())


@contextlib.contextmanager
def _daemon(gateway: Gateway, mode: Mode) -> Iterator[Daemon]:
    """One that begins with an empty database."""
    with tempfile.TemporaryDirectory(prefix="freetrain-cycle-") as directory:
        store = Store.open(Path(directory) / "freetrain.db")
        names = tuple(node.name for node in gateway.snapshot().nodes)
        run = NewRun("freetrain daemon", "", {}, time.time(), time.time(), time.time(), names)
        with store.begin_run(run, batch_decisions=1) as journal:
            yield Daemon(gateway, mode, store.ledger(), journal)
            journal.finish({}, [], time.time())


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def measure_lab(directory: Path) -> list[Measured]:
    """Observe and advise a real Slurm's imaginary nodes; a lab that runs in the directory is taken as it is."""
    running = (directory / "slurm.conf").exists() and Lab.find(directory).status().anything
    lab = Lab.find(directory) if running else make_big_lab(directory, PORT)
    os.environ.update(lab.environment)
    try:
        return [_measure_hurried(f"lab, {mode}", mode) for mode in (Mode.OBSERVE, Mode.ADVISE)]
    finally:
        if not running:
            lab.down()


def _measure_hurried(name: str, mode: Mode) -> Measured:
    """With a clock that skips the time between two polls: the partitions are asked for a second time, too."""
    polls = itertools.count()
    now_s = time.time()

    def skip() -> None:
        nonlocal now_s
        now_s = time.time() + POLL_S * next(polls)

    return measure(name, CommandLine(clock_s=lambda: now_s), mode, skip)


def measure_site() -> Measured:
    """Act on a site of texts, where now and then a large job arrives."""
    site = BigSite(Size())
    arriving = itertools.chain([4] * 6, [500], itertools.repeat(4))
    return measure("texts, act", site, Mode.ACT, lambda: site.go_on(1.0, LEAVING, next(arriving)))


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


def measure_solver(hole_ends: int) -> Solved:
    """Decide once what the daemon would have to, with its quick limit."""
    site = BigSite(Size(hole_ends=hole_ends))
    site.go_on(1.0, LEAVING, 4)
    with _daemon(site, Mode.OBSERVE) as daemon:
        problem = daemon.problem()
    policy = find_policy("freetrain", time_limit_s=QUICK_S)
    before = Spent.until_now()
    decision = decide(policy, problem, time.perf_counter)
    spent = Spent.until_now().since(before)
    return Solved(hole_ends, str(decision.status), decision.solver, spent, _resident_mb())


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


def stage_table(measured: Measured) -> Table:
    """What each stage takes: medians of the later cycles."""
    table = Table(title=f"{measured.name}: ms of each stage, the median of {len(measured.later)} cycles")
    table.add_column("stage")
    for heading in ("wall", "own CPU", "commands' CPU", "first cycle's CPU"):
        table.add_column(heading, justify="right")
    first = measured.cycles[0]
    for stage in sorted({stage for each in measured.cycles for stage in each.stages}):
        each = [one.stages.get(stage, NOTHING) for one in measured.later]
        columns = ([one.wall_s for one in each], [one.own_s for one in each], [one.commands_s for one in each])
        figures = [f"{1000 * statistics.median(column):.0f}" for column in columns]
        table.add_row(stage, *figures, f"{1000 * first.stages.get(stage, NOTHING).cpu_s:.0f}")
    return table


def total_table(cases: Sequence[Measured]) -> Table:
    """One row a case."""
    table = Table(title="One cycle of the daemon: CPU seconds, Slurm's commands included")
    table.add_column("case")
    for heading in ("p50", "max", "first", "second", "wall p50", "questions", "orders", "lent", "MB", "solver"):
        table.add_column(heading, justify="right")
    for case in cases:
        cpu_s = [each.spent.cpu_s for each in case.later]
        table.add_row(
            case.name,
            f"{statistics.median(cpu_s):.3f}",
            f"{max(cpu_s):.3f}",
            *(f"{each.spent.cpu_s:.3f}" for each in case.cycles[:2]),
            f"{statistics.median(each.spent.wall_s for each in case.later):.3f}",
            f"{max(each.questions for each in case.cycles)}",
            f"{max(each.orders for each in case.later)}",
            f"{case.cycles[-1].lent:,}",
            f"{case.rss_mb:.0f}",
            ", ".join(sorted({each.status for each in case.later})),
        )
    return table


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
    arguments = parser.parse_args()
    cases = [measure_site()]
    if not arguments.no_lab:
        with tempfile.TemporaryDirectory(prefix="freetrain-lab-") as directory:
            cases += measure_lab(arguments.lab or Path(directory))
    console = Console(width=150)
    for case in cases:
        console.print(stage_table(case))
    console.print(total_table(cases))
    solved = [measure_solver(hole_ends) for hole_ends in HOLE_ENDS]
    console.print(solver_table(solved))
    if arguments.json:
        arguments.json.write_text(as_json(cases, solved) + "\n")


if __name__ == "__main__":
    main()
