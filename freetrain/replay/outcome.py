"""The outcome of a replay: what a site would have gained, each figure with its definition.

Below them stand the figures of the idle parts of nodes that jobs used: how much lay idle and was lent.
docs/reference/figures.md says more about the definitions; a test holds the two together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, get_type_hints

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes, seconds_within
from freetrain.core.place import node_of
from freetrain.replay.course import ReplayRecord, SiteImpact
from freetrain.replay.logs.model import EmptyHours, IdlePart, IdleShares, SiteLog
from freetrain.replay.nodes import node_groups
from freetrain.replay.trainer_run import Loss, TrainerRun
from freetrain.replay.trainers import TaskShapes
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
    evictions: Annotated[int, "nodes taken from trainers for the site's jobs, or because they failed"]
    forced_rescales: Annotated[int, "times a trainer paid for an eviction or the end of a time limit"]
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
    took_s = [run.completed_s - run.admitted_s for run in runs if run.completed_s is not None]
    due = [
        (run, end_s)
        for run in runs
        if (end_s := run.trainer.deadline_s) is not None and end_s <= record.holes.until_s
    ]
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
        trainers_completed=len(took_s),
        completion_mean_s=sum(took_s) / len(took_s) if took_s else None,
        longest_wait_s=max((run.longest_wait_s for run in runs), default=0.0),
        deadlines=len(due),
        deadlines_met=sum(run.completed_s is not None and run.completed_s <= end_s for run, end_s in due),
        node_hours_of=_node_hours_of(runs),
        lent_watts=joules / record.held_node_s if joules else None,
        leaf_links=record.leaf_links,
        leaf_bytes=record.leaf_bytes,
        evictions=sum(run.evicted_nodes for run in runs),
        forced_rescales=sum(run.losses[Loss.EVICTION] for run in runs),
        rescales=sum(run.rescales for run in runs),
        starts=sum(run.losses[Loss.START] for run in runs),
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
    """Figures of the site's own jobs: starts on nodes that had been idle, and delays by fragments."""

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
    """Figure → its definition."""
    hints = get_type_hints(of, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def _node_hours_of(runs: Iterable[TrainerRun]) -> dict[str, float]:
    hours: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        if run.trainer.owner:
            hours["/".join(filter(None, (run.trainer.account, run.trainer.owner)))] += run.node_hours
    return dict(sorted(hours.items()))


def ratio(part: float, whole: float) -> float | None:
    """A part of a whole; None where there is nothing of it."""
    return part / whole if whole > 0 else None


def _lost_s(runs: Iterable[TrainerRun], why: Loss) -> float:
    return sum(run.lost_s.get(why, 0.0) for run in runs)


@dataclass(frozen=True, slots=True)
class FullHours:
    """Figures of all hours but the empty ones."""

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


_SecondsArray = NDArray[np.float64]
_GIB = 2.0**30


LentShares = Mapping[str, _SecondsArray]
"""Figure of :class:`ShareOutcome` → seconds × places, CPUs or GPUs that trainers had of each node, shape (nodes,).

A place of another shape than the usual one counts as several of these. What a training lost counts as lost in
equal parts of all the time for which it had places.
"""


def lent_of(record: ReplayRecord | None, log: SiteLog) -> LentShares | None:
    """Shares that a replay on parts of nodes lent; None: there was none."""
    if record is None or log.places is None:
        return None
    holes, shapes = log.holes, TaskShapes(log.places.task.each, says_memory=True)
    position = {name: number for number, name in enumerate(holes.node_names)}
    rows = record.leases
    node = np.array([position[node_of(lease.place)] for lease in rows], np.int32)
    from_s, until_s = np.array([(lease.from_s, lease.until_s) for lease in rows], np.float64).reshape(-1, 2).T
    own = {run.trainer.id: (run.counts_as, shapes.of(run.trainer)) for run in record.runs}
    useful = _useful_parts(record)
    of_trainer = {id_: (each, useful.get(id_, 0.0), of.cpus, of.gpus) for id_, (each, of) in own.items()}
    each, part, cpus, gpus = np.array([of_trainer[lease.trainer] for lease in rows], float).reshape(-1, 4).T
    idle_s = seconds_within(holes, node, from_s, until_s)
    beside_s = until_s - from_s - idle_s
    count = len(holes.node_names)
    parts = {
        "partly_lent_task_hours": each * beside_s,
        "partly_useful_task_hours": part * each * beside_s,
        "partly_lent_cpu_hours": cpus * beside_s,
        "partly_lent_gpu_hours": gpus * beside_s,
        "idle_nodes_lent_task_hours": each * idle_s,
        "idle_nodes_useful_task_hours": part * each * idle_s,
    }
    return {name: np.bincount(node, seconds, count).astype(np.float64) for name, seconds in parts.items()}


def _useful_parts(record: ReplayRecord) -> dict[str, float]:
    """Trainer → useful part of the time for which it had places."""
    lent_s: defaultdict[str, float] = defaultdict(float)
    for lease in record.leases:
        lent_s[lease.trainer] += lease.until_s - lease.from_s
    return {
        run.trainer.id: (run.node_s - run.booting_node_s - run.lost_node_s)
        / (run.counts_as * lent_s[run.trainer.id])
        for run in record.runs
        if lent_s[run.trainer.id] and run.counts_as
    }


@dataclass(frozen=True, slots=True)
class ShareOutcome:
    """All figures of the idle parts of nodes, and beside them those of idle nodes."""

    partly_used_node_hours: Annotated[float, "node-hours in which nodes had jobs and an idle CPU"]
    partly_idle_cpu_hours: Annotated[float, "CPU-hours that no job held on partly used nodes"]
    partly_idle_memory_gib_hours: Annotated[float | None, "GiB-hours of memory that no job held there"]
    partly_idle_gpu_hours: Annotated[float | None, "GPU-hours that no job held there"]
    idle_nodes_cpu_hours: Annotated[float, "CPU-hours of nodes that ran none of the site's jobs"]
    idle_nodes_memory_gib_hours: Annotated[float | None, "GiB-hours of their memory"]
    idle_nodes_gpu_hours: Annotated[float | None, "GPU-hours of them"]
    held_unknown_node_hours: Annotated[
        float, "node-hours with jobs of which the log does not say how many CPUs they held; they count as used"
    ]
    partly_fitting_task_hours: Annotated[
        float | None,
        "hours of tasks as --task that would have fit beside jobs there, each for lend.shortest_hole or longer",
    ] = None
    partly_lent_task_hours: Annotated[float | None, "those of them in which a trainer had the place"] = None
    partly_useful_task_hours: Annotated[
        float | None, "lent hours there, less those lost to evictions, rescales, starts and boots"
    ] = None
    partly_lent_cpu_hours: Annotated[float | None, "CPU-hours that trainers had there"] = None
    partly_lent_gpu_hours: Annotated[float | None, "GPU-hours that trainers had there"] = None
    idle_nodes_fitting_task_hours: Annotated[
        float | None, "hours of such tasks that would have fit on nodes that ran none of the site's jobs"
    ] = None
    idle_nodes_lent_task_hours: Annotated[float | None, "those of them in which a trainer had the place"] = None
    idle_nodes_useful_task_hours: Annotated[float | None, "lent hours there, less those lost"] = None


@dataclass(frozen=True, slots=True)
class ShareRow:
    """Figures of some nodes: what they were chosen by, its name, and their number."""

    what: str
    name: str
    nodes: int
    outcome: ShareOutcome


def share_outcome(log: SiteLog, lent: LentShares | None = None) -> ShareOutcome | None:
    """Add up the idle parts of all nodes; None where the log does not show them."""
    every = np.arange(len(log.holes.node_names), dtype=np.intp)
    return None if log.shares is None else _added_up(log, log.shares, _idle_s(log.holes), every, lent)


def share_rows(log: SiteLog, lent: LentShares | None = None) -> tuple[ShareRow, ...]:
    """The figures by partition and kind of node, where there are several, and by type of GPU."""
    shares = log.shares
    if shares is None:
        return ()
    idle_s, groups_by = _idle_s(log.holes), {**node_groups(log), "GPU": list(_by_gpu_type(shares))}
    rows: list[ShareRow] = []
    for what in ("partition", "kind of node", "GPU"):
        groups = groups_by[what]
        found = (ShareRow(what, name, len(own), _added_up(log, shares, idle_s, own, lent)) for name, own in groups)
        rows += sorted(found, key=lambda row: (-row.outcome.partly_idle_cpu_hours, row.name))
    return tuple(rows)


def _by_gpu_type(shares: IdleShares) -> Iterator[tuple[str, NDArray[np.intp]]]:
    if shares.gpus is None:
        return
    types = np.array(shares.gpu_types)
    for name in np.unique(types).tolist():
        nodes = np.flatnonzero((types == name) & (shares.gpus.size > 0))
        if len(nodes):
            yield name or "of unknown type", nodes


def _added_up(
    log: SiteLog, shares: IdleShares, idle_s: _SecondsArray, nodes: NDArray[np.intp], lent: LentShares | None
) -> ShareOutcome:
    def hours(values_s: _SecondsArray) -> float:
        return float(values_s[nodes].sum()) / SECONDS_PER_HOUR

    def parts(part: IdlePart | None, unit: float) -> tuple[float | None, float | None]:
        return (None, None) if part is None else (hours(part.idle_s) / unit, hours(part.size * idle_s) / unit)

    memory, gpus, places = parts(shares.memory_bytes, _GIB), parts(shares.gpus, 1.0), log.places
    return ShareOutcome(
        partly_used_node_hours=hours(shares.partly_used_s),
        partly_idle_cpu_hours=hours(shares.cpus.idle_s),
        partly_idle_memory_gib_hours=memory[0],
        partly_idle_gpu_hours=gpus[0],
        idle_nodes_cpu_hours=hours(shares.cpus.size * idle_s),
        idle_nodes_memory_gib_hours=memory[1],
        idle_nodes_gpu_hours=gpus[1],
        held_unknown_node_hours=hours(shares.cpus.unknown_s),
        partly_fitting_task_hours=hours(places.beside_jobs_s) if places else None,
        idle_nodes_fitting_task_hours=hours(places.idle_nodes_s) if places else None,
        **{name: hours(seconds) for name, seconds in (lent or {}).items()},
    )


def _idle_s(holes: Holes) -> _SecondsArray:
    seconds: _SecondsArray = np.bincount(holes.node, holes.length_s, len(holes.node_names)).astype(np.float64)
    return seconds
