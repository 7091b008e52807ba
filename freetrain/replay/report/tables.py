"""The report's tables: rows of text, ready to show.

The daemon beside what the holes allow; with and without empty hours; groups of nodes; trainers; forecasts; the
idle parts of nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.course import ReplayRecord
from freetrain.replay.foresight import AHEAD_S, FARTHEST_S, ForecastError, ForecastScore
from freetrain.replay.logs.model import EmptyHours, SiteLog
from freetrain.replay.nodes import node_groups
from freetrain.replay.outcome import (
    ReplayOutcome,
    ShareOutcome,
    ShareRow,
    lent_of,
    ratio,
    share_outcome,
    share_rows,
    without_empty_hours,
)
from freetrain.replay.report.sentences import about_shares, about_tasks
from freetrain.replay.study import Study
from freetrain.replay.trainer_run import TrainerRun
from freetrain.showing.words import NOTHING, amount, brief_duration, large, number, share

MAX_TRAINERS = 25
"""Most trainers, or kinds of them, that have a line of their own."""
MIN_FORECASTS = 30
"""Fewest forecasts of a share: a dozen nodes that leave together make 0 % of what was thought certain."""


FigurePair = tuple[str, str, str]
"""The name of a figure, and what it is in the two cases that a table puts side by side."""


def daemon_beside_holes(daemon: ReplayOutcome, allowed: ReplayOutcome) -> Iterator[FigurePair]:
    """Figures of the daemon, beside those that the holes allow."""
    idle = allowed.idle_node_hours
    shown: tuple[tuple[str, Callable[[ReplayOutcome], str]], ...] = (
        ("of a dedicated machine’s work", lambda out: share(out.u_work)),
        ("of its samples (U of the paper)", lambda out: share(out.u_dedicated)),
        ("of the best division’s work", lambda out: share(out.u_oracle)),
        ("node-hours lent", lambda out: amount(out.lent_node_hours, idle)),
        ("node-hours trained", lambda out: amount(out.useful_node_hours, idle)),
        ("samples", lambda out: large(out.samples)),
        ("nodes taken back", lambda out: number(out.evictions)),
        ("forced rescales", lambda out: number(out.forced_rescales)),
        ("rescales", lambda out: number(out.rescales)),
        ("starts", lambda out: number(out.starts)),
    )
    return ((name, show(daemon), show(allowed)) for name, show in shown)


def with_and_without(record: ReplayRecord, empty: EmptyHours | None) -> tuple[FigurePair, ...]:
    """All hours, and those without empty ones; nothing where there are none, or they were left out."""
    rest = without_empty_hours(record, empty)
    if empty is None or rest is None:
        return ()
    idle_h, trained_h = record.holes.idle_node_hours, record.held_node_s / SECONDS_PER_HOUR
    hours = record.holes.duration_s / SECONDS_PER_HOUR
    shares = share(ratio(trained_h, idle_h)), share(ratio(rest.lent_node_hours, rest.idle_node_hours))
    return (
        ("hours", amount(hours), amount(hours - empty.hours, hours)),
        ("idle node-hours", amount(idle_h), amount(rest.idle_node_hours, idle_h)),
        ("of them with trainings", amount(trained_h, idle_h), amount(rest.lent_node_hours, idle_h)),
        ("their share", *shares),
        ("samples", large(record.samples), large(rest.samples)),
    )


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group of nodes.

    Attributes:
        idle_share: part of their time in which they were idle.
        median_s: half of the holes on them were shorter.
    """

    name: str
    nodes: int
    idle_node_hours: float
    idle_share: float
    median_s: float


def group_tables(log: SiteLog) -> tuple[tuple[str, tuple[GroupRow, ...]], ...]:
    """Tables by kind of node and by partition, most idle node-hours first; no rows where there is one only."""
    holes, tables = log.holes, []
    idle_s = np.bincount(holes.node, holes.length_s, len(holes.node_names))
    for what, groups in node_groups(log).items():
        rows = []
        for name, nodes in groups:
            lengths_s = holes.length_s[np.isin(holes.node, nodes)]
            total_s = float(idle_s[nodes].sum())
            rows.append(
                GroupRow(
                    name,
                    len(nodes),
                    total_s / SECONDS_PER_HOUR,
                    total_s / (len(nodes) * holes.duration_s),
                    float(np.median(lengths_s)) if len(lengths_s) else 0.0,
                )
            )
        rows.sort(key=lambda row: (-row.idle_node_hours, row.name))
        tables.append((what, tuple(rows)))
    return tuple(tables)


@dataclass(frozen=True, slots=True)
class TrainerKind:
    """Trainers with the same curve, limits, costs and target.

    Attributes:
        name: common part of their names; the name of a single one.
    """

    name: str
    runs: Sequence[TrainerRun]

    @property
    def node_hours(self) -> float:
        """Node-hours that they had together."""
        return sum(run.node_hours for run in self.runs)


def trainer_kinds(runs: Sequence[TrainerRun]) -> tuple[TrainerKind, ...]:
    """The kinds, most node-hours first; nothing where there are too many of them, or few trainers."""
    if len(runs) <= MAX_TRAINERS:
        return ()
    kinds: defaultdict[object, list[TrainerRun]] = defaultdict(list)
    for run in runs:
        own = run.trainer
        costs = own.scale_up_s, own.scale_down_s, own.forced_loss_s, own.start_s
        kinds[own.throughput, own.min_nodes, own.max_nodes, own.weight, own.target_samples, costs].append(run)
    if len(kinds) > MAX_TRAINERS:
        return ()
    found = (TrainerKind(_common_name([run.trainer.id for run in alike]), alike) for alike in kinds.values())
    return tuple(sorted(found, key=lambda kind: (-kind.node_hours, kind.name)))


def trainer_rows(runs: Sequence[TrainerRun]) -> tuple[tuple[int, TrainerRun], ...]:
    """The trainers that trained most samples, most first, with their places in the order of admission, from 0."""
    ranked = sorted(enumerate(runs), key=lambda item: (-item[1].samples, item[0]))
    return tuple(ranked[:MAX_TRAINERS])


def _common_name(names: Sequence[str]) -> str:
    """ShuffleNet for ShuffleNet-0001, ShuffleNet-0002 …; the first name and … where nothing is alike."""
    if len(names) == 1:
        return names[0]
    first, last = min(names), max(names)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    common = first[:alike].rstrip("0123456789").rstrip("-_ .:")
    return common or f"{names[0]} …"


@dataclass(frozen=True, slots=True)
class ForecastTables:
    """Forecasts of idle time beside what came.

    Attributes:
        ahead: times ahead that the cells of the calibration look.
        calibration: cells of each line: a band of probabilities that a node would be idle still, and for each time
            ahead the share of nodes that was, if there were enough forecasts.
        errors: cells of each line: which forecasts of the time that is left, their mean, how long the nodes really
            stayed, by how much each forecast was wrong, and how many there were.
        unused: times ahead for which plans were farther off than knowing nothing, and were not believed.
    """

    ahead: tuple[str, ...]
    calibration: tuple[tuple[str, ...], ...]
    errors: tuple[tuple[str, ...], ...]
    unused: tuple[str, ...] = ()
    least: int = MIN_FORECASTS


def forecast_tables(score: ForecastScore) -> ForecastTables | None:
    """The tables; None where next to nothing was forecast."""
    enough = [row for row in score.calibration if row.forecasts >= MIN_FORECASTS]
    if not enough:
        return None
    came: defaultdict[int, dict[float, str]] = defaultdict(dict)
    for row in enough:
        came[min(int(10 * row.expected), 9)][row.ahead_s] = share(row.came)
    return ForecastTables(
        tuple(map(brief_duration, AHEAD_S)),
        tuple(
            (f"{10 * band} to {10 * band + 10} %", *(came[band].get(ahead_s, NOTHING) for ahead_s in AHEAD_S))
            for band in sorted(came, reverse=True)
        ),
        tuple(
            (f"{kind}, {_length(error)}", *map(brief_duration, (error.expected_s, error.came_s, error.off_s)),
             number(error.forecasts))
            for kind, errors in (("learned", score.learned), ("planned", score.planned))
            for error in errors
        ),
        tuple(
            f"up to {brief_duration(score.planned_s / score.forecasts)}"
            for score in score.plans if not score.is_believed
        ),
    )  # fmt: skip


def _length(error: ForecastError) -> str:
    if error.up_to_s is None:
        return f"over {brief_duration(FARTHEST_S[-2])}"
    at = FARTHEST_S.index(error.up_to_s)
    up_to = brief_duration(error.up_to_s)
    return f"{brief_duration(FARTHEST_S[at - 1])} to {up_to}" if at else f"up to {up_to}"


@dataclass(frozen=True, slots=True)
class ShownShares:
    """A table: a sentence, and a line for all nodes and for each group of them.

    Attributes:
        rows: cells of each line: what it is, its nodes, partly used node-hours, CPU-, GiB- and GPU-hours, and,
            where tasks were asked for, the hours of those that would have fit, were lent and were of use.
        about_tasks: sentences on these; empty: nobody asked.
    """

    about: str
    rows: tuple[tuple[str, ...], ...]
    about_tasks: str = ""


def shown_shares(log: SiteLog, played: Study | None = None) -> ShownShares | None:
    """The table; None where the log does not show what lay idle, or nothing did.

    Of the replay in which parts of nodes were lent, what the daemon would have got is shown where it is known.
    """
    lent = lent_of(played.shown.record if played else None, log)
    all_nodes = share_outcome(log, lent)
    if all_nodes is None or not all_nodes.partly_used_node_hours:
        return None
    rows = [ShareRow("", "all nodes", len(log.holes.node_names), all_nodes), *share_rows(log, lent)]
    return ShownShares(
        about_shares(all_nodes),
        tuple(_cells(row, all_nodes) for row in rows),
        about_tasks(log.places.task, all_nodes, played) if log.places else "",
    )


def _cells(row: ShareRow, largest: ShareOutcome) -> tuple[str, ...]:
    parts = row.outcome
    return (
        f"{row.what} {row.name}".strip(),
        f"{row.nodes:,}",
        amount(parts.partly_used_node_hours, largest.partly_used_node_hours),
        amount(parts.partly_idle_cpu_hours, largest.partly_idle_cpu_hours),
        amount(parts.partly_idle_memory_gib_hours, largest.partly_idle_memory_gib_hours),
        amount(parts.partly_idle_gpu_hours, largest.partly_idle_gpu_hours),
        *(
            amount(hours, largest.partly_fitting_task_hours)
            for hours in (
                parts.partly_fitting_task_hours,
                parts.partly_lent_task_hours,
                parts.partly_useful_task_hours,
            )
            if hours is not None
        ),
    )
