"""The outcome of a replay: what a site would have gained, each figure with its definition.

docs/reference/figures.md says more about the definitions; a test holds the two together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, get_type_hints

import numpy as np

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.course import ReplayRecord, SiteImpact
from freetrain.replay.logs.model import EmptyHours
from freetrain.replay.trainer_run import Loss, TrainerRun
from freetrain.replay.yardsticks import DedicatedRecord


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """All figures of a replay."""

    idle_node_hours: Annotated[float, "node-hours in which nodes ran none of the site's jobs"]
    lent_node_hours: Annotated[float, "idle node-hours in which a trainer had the node"]
    useful_node_hours: Annotated[float, "lent node-hours less those lost to evictions, rescales, starts and boots"]
    work: Annotated[float, "what was trained, losses subtracted, in the objective's unit"]
    u_work: Annotated[
        float | None, "work / work of the same trainers on equal shares of a dedicated machine of equal node-hours"
    ]
    samples: Annotated[float, "training samples processed, losses subtracted"]
    u_dedicated: Annotated[
        float | None,
        "samples / samples of the same trainers on equal shares of a dedicated machine of equal node-hours",
    ]
    u_oracle: Annotated[
        float | None,
        "work / work of the best division of the idle nodes at every instant, changes costing nothing (to within "
        "0.05 %, never put too low)",
    ]
    dedicated_nodes: Annotated[float, "size of that dedicated machine: idle node-hours / hours replayed"]
    dedicated_work: Annotated[float, "work of the same trainers on it"]
    dedicated_samples: Annotated[float, "samples of the same trainers on it"]
    trainers_admitted: Annotated[int, "trainers that came in"]
    trainers_completed: Annotated[int, "trainers that reached their target"]
    completion_mean_s: Annotated[float | None, "seconds from coming in to the target, of those that reached it"]
    longest_wait_s: Annotated[float, "longest that a trainer that had come in was without a node"]
    deadlines: Annotated[int, "trainers that came in and whose deadline lies in the window"]
    deadlines_met: Annotated[int, "those of them that reached their target by then"]
    node_hours_of: Annotated[
        dict[str, float], "node-hours in which trainers had nodes, by account/owner, where trainers name owners"
    ]
    lent_watts: Annotated[
        float | None, "watts that a node took while a trainer had it, beyond idle, mean over these; where known"
    ]
    leaf_links: Annotated[
        float | None,
        "links from one leaf switch to another in the ring of a trainer that has nodes, mean over time",
    ]
    leaf_bytes: Annotated[
        float | None, "bytes of gradients that went from leaf to leaf, of trainers of which they are known"
    ]
    evictions: Annotated[int, "times a node was taken from a trainer for one of the site's jobs, or failed"]
    forced_rescales: Annotated[int, "times a trainer paid for evictions (several nodes at once count once)"]
    rescales: Annotated[int, "times a trainer paid for a change of size that freetrain decided"]
    starts: Annotated[int, "times a trainer started from nothing"]
    eviction_lost_s: Annotated[
        float, "seconds of training since the last save that evictions undid, over all trainers"
    ]
    eviction_pause_s: Annotated[float, "seconds of pauses that evictions forced, over all trainers"]
    scale_up_lost_s: Annotated[float, "seconds of training lost to growing"]
    scale_down_lost_s: Annotated[float, "seconds of training lost to shrinking"]
    start_lost_s: Annotated[float, "seconds of training lost to starting"]
    events: Annotated[int, "instants at which nodes or trainers came or went"]
    decisions: Annotated[int, "problems decided"]
    solve_p50_s: Annotated[float, "median wall seconds to decide"]
    solve_p95_s: Annotated[float, "95th percentile of it"]
    solve_max_s: Annotated[float, "longest of it"]
    statuses: Annotated[dict[str, int], "decisions by status and solver"]


def outcome_of(record: ReplayRecord, dedicated: DedicatedRecord) -> ReplayOutcome:
    """Add up a replay."""
    runs, samples, work = record.runs, record.samples, record.work
    joules = sum(run.joules for run in runs)
    solve_s = record.timeline.solve_s or [0.0]
    return ReplayOutcome(
        idle_node_hours=record.holes.idle_node_hours,
        lent_node_hours=record.lent_node_s / SECONDS_PER_HOUR,
        useful_node_hours=record.useful_node_s / SECONDS_PER_HOUR,
        work=work,
        u_work=ratio(work, dedicated.work),
        samples=samples,
        u_dedicated=ratio(samples, dedicated.samples),
        u_oracle=ratio(work, record.oracle_work),
        dedicated_nodes=dedicated.nodes,
        dedicated_work=dedicated.work,
        dedicated_samples=dedicated.samples,
        trainers_admitted=len(runs),
        trainers_completed=sum(run.completed_s is not None for run in runs),
        completion_mean_s=_completion_mean_s(runs),
        longest_wait_s=max((run.longest_wait_s for run in runs), default=0.0),
        deadlines=len(due := _due(record)),
        deadlines_met=sum(run.completed_s is not None and run.completed_s <= end_s for run, end_s in due),
        node_hours_of=_node_hours_of(runs),
        lent_watts=joules / record.held_node_s if joules else None,
        leaf_links=record.leaf_links,
        leaf_bytes=record.leaf_bytes,
        evictions=sum(run.evicted_nodes for run in runs),
        forced_rescales=_times(runs, Loss.EVICTION),
        rescales=sum(run.rescales for run in runs),
        starts=_times(runs, Loss.START),
        eviction_lost_s=_lost_s(runs, Loss.EVICTION),
        eviction_pause_s=_lost_s(runs, Loss.EVICTION_PAUSE),
        scale_up_lost_s=_lost_s(runs, Loss.SCALE_UP),
        scale_down_lost_s=_lost_s(runs, Loss.SCALE_DOWN),
        start_lost_s=_lost_s(runs, Loss.START),
        events=record.events,
        decisions=len(record.timeline.solve_s),
        solve_p50_s=float(np.percentile(solve_s, 50)),
        solve_p95_s=float(np.percentile(solve_s, 95)),
        solve_max_s=max(solve_s),
        statuses=dict(record.timeline.statuses),
    )


@dataclass(frozen=True, slots=True)
class SiteOutcome:
    """What the site's own jobs feel."""

    site_starts: Annotated[int, "jobs of the site's that started on nodes that had been idle"]
    site_delayed: Annotated[int, "those of them that had to wait for fragments"]
    site_delay_s: Annotated[float, "seconds that they waited for fragments, together"]
    site_delay_mean_s: Annotated[float, "the same, for each job that started on such nodes"]
    site_delay_max_s: Annotated[float, "the longest"]


def site_outcome_of(impact: SiteImpact) -> SiteOutcome:
    """Add up what the replay costs the site."""
    total_s = sum(impact.delays_s)
    return SiteOutcome(
        site_starts=impact.starts,
        site_delayed=len(impact.delays_s),
        site_delay_s=total_s,
        site_delay_mean_s=total_s / impact.starts if impact.starts else 0.0,
        site_delay_max_s=max(impact.delays_s, default=0.0),
    )


def definitions(of: type[object] = ReplayOutcome) -> dict[str, str]:
    """What each figure means, by name."""
    hints = get_type_hints(of, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def _due(record: ReplayRecord) -> list[tuple[TrainerRun, float]]:
    named = [(run, run.trainer.deadline_s) for run in record.runs]
    return [(run, end_s) for run, end_s in named if end_s is not None and end_s <= record.holes.until_s]


def _node_hours_of(runs: Iterable[TrainerRun]) -> dict[str, float]:
    hours: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        if run.trainer.owner:
            hours["/".join(filter(None, (run.trainer.account, run.trainer.owner)))] += run.node_hours
    return dict(sorted(hours.items()))


def _completion_mean_s(runs: Iterable[TrainerRun]) -> float | None:
    took_s = [run.completed_s - run.admitted_s for run in runs if run.completed_s is not None]
    return sum(took_s) / len(took_s) if took_s else None


def ratio(part: float, whole: float) -> float | None:
    """A part of a whole; None where there is nothing of it."""
    return part / whole if whole > 0 else None


def _times(runs: Iterable[TrainerRun], why: Loss) -> int:
    return sum(run.losses[why] for run in runs)


def _lost_s(runs: Iterable[TrainerRun], why: Loss) -> float:
    return sum(run.lost_s.get(why, 0.0) for run in runs)


@dataclass(frozen=True, slots=True)
class FullHours:
    """Figures of the hours that are left."""

    idle_node_hours: float
    lent_node_hours: float
    samples: float


def without_empty_hours(record: ReplayRecord, empty: EmptyHours | None) -> FullHours | None:
    """The figures of a replay of all hours without these; None: there are none, or they were left out before."""
    if empty is None or empty.left_out:
        return None
    timeline = record.timeline
    # Between two instants of a timeline nothing changes.
    at_s = np.append(timeline.at_s, record.holes.until_s)
    lasts_s = np.diff(at_s)
    lent_s = np.concatenate([[0.0], np.cumsum(lasts_s * timeline.lent_nodes)])
    trained = np.append(timeline.samples, 0.0)
    trained[-1] = trained[-2] + lasts_s[-1] * timeline.samples_per_s[-1] if len(trained) > 1 else 0.0

    def outside(done: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        within = np.interp(empty.until_s, at_s, done) - np.interp(empty.from_s, at_s, done)
        return float(done[-1] - within.sum())

    return FullHours(
        empty.all_idle_node_hours - empty.idle_node_hours, outside(lent_s) / SECONDS_PER_HOUR, outside(trained)
    )
