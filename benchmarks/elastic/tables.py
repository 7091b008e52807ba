"""The figures as rows of cells. Failures are counted where they happened."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.elastic.checkpoints import CheckpointCost
from benchmarks.elastic.events import Outcome
from benchmarks.elastic.membership import StepTime
from benchmarks.elastic.memory import Memory
from benchmarks.elastic.progress import ProgressCost
from benchmarks.elastic.rewrapping import Rewrap
from benchmarks.elastic.servers import ServedStep
from benchmarks.elastic.steps import Change, quantile
from freetrain.showing.words import NOTHING

Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, columns, rows of cells, and what to know about them."""

    title: str
    columns: Cells
    rows: list[Cells]
    notes: tuple[str, ...] = ()


def pause_table(outcomes: Sequence[Outcome]) -> Table:
    """One row per event and system: how long the training paused, and how many times the first one's pause."""
    rows: list[Cells] = []
    for event, system in dict.fromkeys((outcome.event, outcome.system) for outcome in outcomes):
        here = _of(outcomes, system, event)
        first = _of(outcomes, outcomes[0].system, event)
        rows.append((event, system, *_pause_cells(here), _ratio(first, here)))
    systems = dict.fromkeys(outcome.system for outcome in outcomes)
    notes = tuple(note for system in systems for note in _notes(system, outcomes))
    columns = ("event", "system", "p50", "p95", "max", "succeeded", "times the first")
    return Table("Pause of training in seconds", columns, sorted(rows, key=lambda row: row[0]), notes)


def size_table(outcomes: Sequence[Outcome]) -> Table:
    """One row per size of model and system: what a step takes, and the pause when a rank comes or goes."""
    columns = (
        "parameters",
        "system",
        "step before",
        "slowest",
        "step after",
        "grow p50",
        "min–max",
        "leave p50",
        "min–max",
        "kill p50",
        "min–max",
    )
    rows = []
    for parameters, system in dict.fromkeys((outcome.parameters, outcome.system) for outcome in outcomes):
        here = [outcome for outcome in outcomes if (outcome.parameters, outcome.system) == (parameters, system)]
        grow, leave, kill = (
            [one for one in here if one.event.startswith(kind)] for kind in ("grow", "leave", "kill")
        )
        steps = (
            _median_of(grow, lambda change: change.step_before_s),
            _median_of(grow, lambda change: change.slowest_before_s),
            _median_of(leave, lambda change: change.step_before_s),
        )
        ranges = (cell for found in (grow, leave, kill) for cell in _range_cells(found))
        rows.append((f"{parameters / 1e6:g} M", system, *steps, *ranges, _success(here)))
    notes = (
        "fp32, steps without sleep; another rank comes and goes; one step is part of each pause",
        "slowest: the longest step before it joins, while it boots and is fed",
    )
    return Table("Pause against size of model, in seconds", (*columns, "succeeded"), rows, notes)


def rewrap_table(rewraps: Sequence[Rewrap]) -> Table:
    """One row per size of model: what torch alone needs to go on in another world."""
    rows: list[Cells] = []
    for parameters in dict.fromkeys(one.parameters for one in rewraps):
        here = [one for one in rewraps if one.parameters == parameters]
        beyond_s = [one.pause_s - one.step_s for one in here]
        rows.append(
            (
                f"{parameters / 1e6:g} M",
                f"{statistics.median(one.step_s for one in here):.3f}",
                f"{statistics.median(one.pause_s for one in here):.3f}",
                f"{min(one.pause_s for one in here):.3f}–{max(one.pause_s for one in here):.3f}",
                f"{statistics.median(beyond_s):+.3f}",
            )
        )
    columns = ("parameters", "step", "pause p50", "min–max", "beyond a step p50")
    notes = ("two ranks that have all they need drop their process group and DDP, and make new ones",)
    return Table("What torch alone takes for another world, in seconds", columns, rows, notes)


def memory_table(rows_of: Sequence[Memory]) -> Table:
    """One row per count of changes: what the first worker then has of the computer's memory."""
    rows: list[Cells] = [
        (
            str(one.changes),
            *_grown(one.resident_bytes, rows_of[0].resident_bytes),
            *_grown(one.needed_bytes, rows_of[0].needed_bytes),
            str(one.threads),
        )
        for one in rows_of
    ]
    columns = ("changes", "MB", "grown by", "without free, MB", "grown by", "threads")
    notes = ("without free: once the allocator has given back what it kept although it was free",)
    return Table("Memory of the first worker", columns, rows, notes)


def _grown(now_bytes: int, first_bytes: int) -> Cells:
    return f"{now_bytes / 1e6:.0f}", f"{100 * (now_bytes / first_bytes - 1):+.1f} %"


def checkpoint_table(costs: Sequence[CheckpointCost]) -> Table:
    """One row per size of model and way of writing: how much longer the steps last."""
    columns = ("parameters", "written", "step", "first stall", "stall p50", "min–max", "all it costs p50")
    rows: list[Cells] = [
        (
            f"{cost.parameters / 1e6:g} M",
            "in the background" if cost.in_background else "while all wait",
            f"{cost.step_s:.3f}",
            f"{cost.first_stall_s:.3f}",
            f"{statistics.median(cost.stalls_s):.3f}",
            f"{min(cost.stalls_s):.3f}–{max(cost.stalls_s):.3f}",
            f"{statistics.median(cost.written_s):.3f}",
        )
        for cost in costs
    ]
    notes = (
        "fp32, one rank; stall: by how much longer the step lasts after which the checkpoint is taken",
        "all it costs: by how much longer all steps last until the next one; it is written on the same cores",
    )
    return Table("What a checkpoint costs, in seconds", columns, rows, notes)


def served_table(steps: Sequence[ServedStep]) -> Table:
    """One row per model and number of workers: steps per second by number of servers."""
    counts = sorted({one.servers for one in steps})
    names = ("the ring" if count == 0 else f"{count} servers" if count > 1 else "1 server" for count in counts)
    rows = []
    for parameters, workers in dict.fromkeys((one.parameters, one.workers) for one in steps):
        here = {one.servers: one.step_s for one in steps if (one.parameters, one.workers) == (parameters, workers)}
        cells = (f"{1 / here[count]:.1f}" if count in here else NOTHING for count in counts)
        rows.append((f"{parameters / 1e6:g} M", str(workers), *cells))
    return Table("Steps per second", ("parameters", "workers", *names), rows)


def membership_table(times: Sequence[StepTime]) -> Table:
    """One row per size of world: the steps of each system, and by how much longer those of the first are."""
    first, *others = dict.fromkeys(one.system for one in times)
    rows = []
    for ranks in dict.fromkeys(one.ranks for one in times):
        steps_s = {
            (one.system, one.repeat): one.step_s for one in times if one.ranks == ranks and one.step_s is not None
        }
        medians = [
            _milliseconds([s for (name, _), s in steps_s.items() if name == system]) for system in (first, *others)
        ]
        longer = [
            _longer(
                [
                    s / steps_s[other, at] - 1
                    for (name, at), s in steps_s.items()
                    if name == first and (other, at) in steps_s
                ]
            )
            for other in others
        ]
        rows.append((str(ranks), *medians, *longer))
    columns = ("ranks", *(f"{name}, ms" for name in (first, *others)), *(f"longer than {name}" for name in others))
    note = "medians of some hundred steps, in each of which every rank sleeps for 10 ms; all ranks on one machine"
    return Table("Steps of worlds that do not change", columns, rows, (note,))


def _milliseconds(steps_s: Sequence[float]) -> str:
    return f"{1000 * statistics.median(steps_s):.3f}" if steps_s else NOTHING


def _longer(shares: Sequence[float]) -> str:
    """The median, and between what."""
    if not shares:
        return NOTHING
    middle, *extent = (f"{100 * share:+.2f}" for share in (statistics.median(shares), min(shares), max(shares)))
    return f"{middle} % ({' to '.join(extent)})"


def progress_table(cost: ProgressCost) -> Table:
    """Share of a 10 ms step that reporting progress takes, by both measures."""
    rows = [
        (name, *(f"{100 * value:+.4f} %" for value in (statistics.median(shares), min(shares), max(shares))))
        for name, shares in (
            ("timed by itself", cost.timed_shares),
            ("training with against training without", cost.differing_shares),
        )
    ]
    note = f"the second: {len(cost.steps_with_s)} pairs of trainings, 50 times as many lines as by default, noise"
    return Table("Cost of progress, share of a 10 ms step", ("measure", "p50", "min", "max"), rows, (note,))


def pauses(outcomes: Sequence[Outcome]) -> list[float]:
    """The pauses of those that succeeded."""
    return [outcome.change.pause_s for outcome in outcomes if outcome.change is not None]


def _of(outcomes: Sequence[Outcome], system: str, event: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if (outcome.system, outcome.event) == (system, event)]


def _pause_cells(outcomes: Sequence[Outcome]) -> Cells:
    found = pauses(outcomes)
    if not found:
        return (NOTHING, NOTHING, NOTHING, _success(outcomes))
    figures = (quantile(found, 0.5), quantile(found, 0.95), max(found))
    return (*(f"{value:.3f}" for value in figures), _success(outcomes))


def _range_cells(outcomes: Sequence[Outcome]) -> Cells:
    found = pauses(outcomes)
    if not found:
        return (NOTHING, NOTHING)
    return (f"{quantile(found, 0.5):.3f}", f"{min(found):.3f}–{max(found):.3f}")


def _median_of(outcomes: Sequence[Outcome], figure: Callable[[Change], float | None]) -> str:
    found = [value for one in outcomes if one.change and (value := figure(one.change)) is not None]
    return f"{statistics.median(found):.3f}" if found else NOTHING


def _success(outcomes: Sequence[Outcome]) -> str:
    """How many of how many, and what became of the rest."""
    failures = Counter(outcome.failure for outcome in outcomes if outcome.failure)
    words = [f"{count} {failure}" for failure, count in failures.items()]
    return ", ".join([f"{len(outcomes) - failures.total()} of {len(outcomes)}", *words])


def _ratio(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> str:
    if not pauses(ours) or not pauses(theirs):
        return NOTHING
    return f"{quantile(pauses(theirs), 0.5) / quantile(pauses(ours), 0.5):.1f}"


def _notes(system: str, outcomes: Sequence[Outcome]) -> list[str]:
    changes = [outcome.change for outcome in outcomes if outcome.system == system and outcome.change]
    if not changes:
        return []
    steps_s = [change.step_before_s for change in changes if change.step_before_s is not None]
    redone = [change.redone_steps for change in changes]
    several = sum(len(change.pauses_s) > 1 for change in changes)
    step = f"{1000 * statistics.median(steps_s):.1f} ms per step" if steps_s else "step time unknown"
    return [
        f"{system}: {step}; {several} of {len(changes)} changes took more than one new world; "
        f"steps done again: {statistics.median(redone):g} (p50), {max(redone)} (max)"
    ]
