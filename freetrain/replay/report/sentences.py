"""The report's sentences: headline, key figures, captions, remarks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil

import numpy as np

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.core.throughput import Floats
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs.model import TaskRequest
from freetrain.replay.logs.parsed import RowCount
from freetrain.replay.outcome import ReplayOutcome, ShareOutcome, SiteOutcome, ratio
from freetrain.replay.report.series import idle_steps
from freetrain.replay.study import Study
from freetrain.replay.trainer_run import TrainerRun
from freetrain.showing.words import (
    NOTHING,
    FigureLine,
    amount,
    count,
    duration,
    large,
    milliseconds,
    moment,
    number,
    share,
)

_DAY_S = 86_400
_MATTERS = 0.01
_ALL_BUT = 0.01


def headline(study: Study) -> str:
    """The result in a sentence or two: what the daemon would get; where that was not asked, what holes allow."""
    out = study.outcome
    span = f"In {duration(study.record.holes.duration_s)}"
    if out.idle_node_hours <= 0:
        return f"{span}, no node was ever idle."
    idle = (
        f"{span}, {count(out.idle_node_hours, 'node-hour')} {'was' if out.idle_node_hours == 1 else 'were'} idle."
    )
    shown = study.shown.outcome
    if shown.samples <= 0:
        return f"{idle} No trainer got anywhere on them."
    nodes = count(out.dedicated_nodes, "node")
    part = f"{share(shown.u_work)} of the work that the same trainers do on {nodes} of their own"
    if study.estimate is not None and study.estimate.work is not None:
        work, lent_hours = study.estimate.work, study.estimate.lent_node_hours
        lent = f"{share(ratio(lent_hours.value, out.idle_node_hours))} of that"
        reached = f"{share(work.value)} (± {share(work.within)}) of the work"
        return (
            f"{idle} By {count(study.estimate.blocks, 'block')} of some hours, the daemon would have lent {lent} "
            f"and reached {reached} that the same trainers do on {nodes} of their own. They allow "
            f"{share(out.u_work)}."
        )
    if study.as_daemon is None:
        return f"{idle} They allow {part}." if shown.u_work else idle
    lent = f"The daemon would have lent {share(ratio(shown.lent_node_hours, shown.idle_node_hours))} of that"
    return f"{idle} {lent} and reached {part}." if shown.u_work else f"{idle} {lent}."


def ran_out(record: ReplayRecord) -> str:
    """Remark that the trainers were done before the window was over; empty where they were not."""
    done_s = [run.completed_s for run in record.runs if run.completed_s is not None]
    if not done_s or len(done_s) < len(record.runs) or max(done_s) >= record.holes.until_s:
        return ""
    trainers = f"All {count(len(done_s), 'trainer')}" if len(done_s) > 1 else "The only trainer"
    return (
        f"{trainers} had reached {'their targets' if len(done_s) > 1 else 'its target'} by {moment(max(done_s))}: "
        "nobody was left to use the nodes that were idle afterwards."
    )


def tiles(study: Study, objective: str) -> tuple[FigureLine, ...]:
    """The key figures: of the daemon, or, where that was not asked, of what holes allow."""
    daemon, shown = study.as_daemon, study.shown.outcome
    holes = study.record.holes
    machine_hours = len(holes.node_names) * holes.duration_s / SECONDS_PER_HOUR
    lent = shown.lent_node_hours
    idle = shown.idle_node_hours
    of_machine = f"{share(ratio(idle, machine_hours))} of the machine’s {amount(machine_hours)}"
    to_trainers = f"{amount(lent, idle)} node-hours, to {count(shown.trainers_admitted, 'trainer')}"
    lost = share(ratio(lent - shown.useful_node_hours, lent))
    return (
        FigureLine("idle node-hours", amount(idle), of_machine),
        FigureLine("of them lent", share(ratio(lent, idle)), to_trainers),
        FigureLine("of a dedicated machine’s work", share(shown.u_work), _compared(study, shown, objective)),
        *((_felt(daemon.site),) if daemon else ()),
        FigureLine("of lent time lost", lost, _lost(shown, holes.duration_s)),
    )


def _compared(study: Study, shown: ReplayOutcome, objective: str) -> str:
    alone = f"of the same trainers on {count(shown.dedicated_nodes, 'node')} of their own"
    parts = [f"{alone}: {work_done(objective, shown.work)}"]
    if study.as_daemon is not None and study.outcome.u_work is not None:
        parts.append(f"the holes allow {share(study.outcome.u_work)}")
    if study.outcome.u_oracle is not None and study.as_daemon is None:
        parts.append(f"{share(study.outcome.u_oracle)} of the best division at every instant")
    return "; ".join(parts)


def _felt(site: SiteOutcome) -> FigureLine:
    if not site.site_starts:
        return FigureLine("met fragments", NOTHING, "no job of the site started on idle nodes")
    met = f"{number(site.site_delayed)} of {count(site.site_starts, 'job')} that started on idle nodes"
    return FigureLine("of the site’s jobs met fragments", share(site.site_delayed / site.site_starts), met)


def _lost(shown: ReplayOutcome, duration_s: float) -> str:
    a_day = f" ({number(shown.evictions / duration_s * _DAY_S)} a day)" if duration_s >= 2 * _DAY_S else ""
    return (
        f"to {count(shown.forced_rescales, 'forced rescale')}, {count(shown.rescales, 'other')} and "
        f"{count(shown.starts, 'start')}; {count(shown.evictions, 'node')} taken back{a_day}"
    )


def parts_of_idle_time(shown: ReplayOutcome, record: ReplayRecord) -> tuple[tuple[str, str, float], ...]:
    """Parts of the idle node-hours by use: class of the style sheet, words, and hours; empty if none were idle."""
    idle = shown.idle_node_hours
    if idle <= 0:
        return ()
    trained = record.held_node_s / SECONDS_PER_HOUR
    parts = (
        ("useful", "trained", shown.useful_node_hours),
        ("starting", "starting and leaving", shown.lent_node_hours - trained),
        ("lost", "lost to evictions, rescales and starts", trained - shown.useful_node_hours),
        ("unlent", "not lent", idle - shown.lent_node_hours),
    )
    shown_parts = (part for part in parts if part[0] != "starting" or record.site_impact)
    return tuple((kind, name, max(hours, 0.0)) for kind, name, hours in shown_parts)


def about_trainers(record: ReplayRecord, shown: int, kinds: int) -> str:
    """Caption of the trainers' table: which it shows, and how many of all reached their target."""
    admitted = len(record.runs)
    done = sum(run.completed_s is not None for run in record.runs)
    if admitted == 1:
        return f"One trainer was admitted; it {'reached' if done else 'did not reach'} its target."
    reached = "none" if not done else "all" if done == admitted else number(done)
    admitted_words = f"{count(admitted, 'trainer')} were admitted and {reached} of them reached their target."
    if kinds:
        return f"{admitted_words} Those that are alike (curve, limits, costs and target) share a line."
    which = (
        f"the {number(shown)} with the most samples" if shown < admitted else "those with the most samples first"
    )
    return f"{admitted_words} The table shows {which}; where they are equal, those admitted first."


def about_grid(record: ReplayRecord, packed: bool) -> str:
    """Caption of the nodes' picture: which nodes it shows, and how it is to be read."""
    shown, ever = len(record.timeline.pictured), record.timeline.ever_idle_nodes
    which = (
        f"Each line is one of the {count(ever, 'node')} that were ever idle."
        if shown == ever
        else f"Each line is a node: {number(shown)} of the {number(ever)} that were ever idle, spread evenly."
    )
    if packed:
        which += (
            " The log names no nodes, so jobs were placed on the first that were free: lines stand for any node."
        )
    return which


def about_holes(holes: Holes) -> str:
    """The lengths of the holes in a sentence or two."""
    if not len(holes):
        return "There was no hole."
    lengths_s = holes.length_s
    if len(holes) == 1:
        return f"There was one hole; it lasted {duration(lengths_s[0])}."
    median_s = float(np.median(lengths_s))
    long = lengths_s >= SECONDS_PER_HOUR
    held = share(float(lengths_s[long].sum() / lengths_s.sum()))
    return (
        f"There were {count(len(holes), 'hole')}; half of them lasted less than {duration(median_s)}, "
        f"and the longest {duration(float(lengths_s.max()))}. "
        f"Holes of an hour or more were {share(float(long.mean()))} of all holes and held {held} of the idle time."
    )


def about_site(site: SiteOutcome) -> str:
    """Remark on what the site's jobs would have found, in a sentence or two."""
    if not site.site_starts:
        return "None of the site’s jobs started on a node that had been idle."
    met = (
        f"Of {count(site.site_starts, 'job')} of the site that started on idle nodes, {number(site.site_delayed)} "
        "would have found a fragment on some of them"
    )
    if not site.site_delayed:
        return f"{met}."
    return (
        f"{met}. How much later these would start, and those behind them in the queue, a log cannot tell: "
        "docs/evidence/harm.md says what was measured on real queues."
    )


def about_shares(parts: ShareOutcome) -> str:
    """Remark on what lay idle beside the site’s jobs, and on nodes without."""
    gpus = ""
    if parts.partly_idle_gpu_hours is not None:
        gpus = f" and {count(parts.partly_idle_gpu_hours, 'GPU-hour')}"
    return (
        f"In {count(parts.partly_used_node_hours, 'node-hour')} nodes had jobs and an idle CPU beside them. "
        f"{count(parts.partly_idle_cpu_hours, 'CPU-hour')}{gpus} lay idle there; nodes without jobs had "
        f"{count(parts.idle_nodes_cpu_hours, 'CPU-hour')}."
    )


def about_tasks(task: TaskRequest, parts: ShareOutcome, played: Study | None) -> str:
    """Remark on the room for tasks beside the jobs and on nodes without, and how much of it was lent."""
    beside, empty = parts.partly_fitting_task_hours or 0.0, parts.idle_nodes_fitting_task_hours or 0.0
    gpus = f", {count(beside * task.each.gpus, 'GPU-hour')}," if task.each.gpus else ""
    fitted = (
        f"Tasks of {task.words} would have fit beside the jobs for {count(beside, 'task-hour')}{gpus} each for "
        f"{task.shortest_s:.0f} s or longer; on nodes without jobs for {count(empty, 'task-hour')}."
    )
    return fitted if played is None else f"{fitted} {_about_lent(parts, played)}"


def _about_lent(parts: ShareOutcome, played: Study) -> str:
    beside, empty = parts.partly_lent_task_hours or 0.0, parts.idle_nodes_lent_task_hours or 0.0
    daemon, allowed = played.as_daemon, played.outcome
    who = "the daemon would have lent" if daemon else "the holes allow"
    own = "one of its own tasks, counted as so many of these"
    lent = (
        f"Of these {who} {count(beside, 'task-hour')} beside jobs and {count(empty, 'task-hour')} on nodes "
        f"without, to trainers each of whose nodes is {own if played.has_own_tasks else 'such a task here'}"
    )
    if daemon is None:
        return f"{lent}: places are lent at the instant at which there is room."
    site = daemon.site
    return (
        f"{lent}; the holes allow {count(allowed.lent_node_hours, 'task-hour')} of both. {site.site_delayed:,} of "
        f"{count(site.site_starts, 'job')} that started waited for what was lent, on average over all of them "
        f"{site.site_delay_mean_s:.1f} s."
    )


def about_rows(rows: RowCount) -> str:
    """Remark on what became of the log's rows."""
    ignored = sum(rows.ignored.values())
    reasons = "; ".join(f"{reason}: {number(times)}" for reason, times in rows.ignored.items() if times)
    return (
        f"Of {count(rows.read, 'row')}, {number(rows.used)} {_was(rows.used)} used, "
        f"{number(ignored)} {_was(ignored)} ignored{f' ({reasons})' if reasons else ''} "
        f"and {number(rows.rejected)} {_was(rows.rejected)} rejected."
    )


def shown_figure(name: str, value: object) -> str:
    """A figure of the outcome as its definition's neighbour."""
    if value is None:
        return NOTHING
    if isinstance(value, dict):
        return ", ".join(f"{key}: {number(times)}" for key, times in value.items()) or NOTHING
    if not isinstance(value, int | float):
        return str(value)
    if name.startswith("solve_"):
        return milliseconds(value)
    if name.startswith("u_"):
        return share(value)
    if name.endswith(("samples", "work")):
        return large(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}{' s' if name.endswith('_s') else ''}"


def _was(times: int) -> str:
    return "was" if times == 1 else "were"


def work_done(objective: str, work: float) -> str:
    """Work (worth per second × seconds, losses subtracted) in words, as a reader understands it."""
    hours = amount(work / SECONDS_PER_HOUR)
    match objective:
        case "speedup":
            return f"as much training as one node does in {hours} hours"
        case "weighted":
            return f"as much training as one node does in {hours} hours, weights counted in"
        case "throughput":
            return f"{large(work)} samples, weights counted in"
        case _:
            return f"{large(work)} in the unit of {objective}"


def about_plateau(holes: Holes, runs: Sequence[TrainerRun], max_running: int) -> str:
    """Remark on idle nodes beyond all that the trainers which may run at once can use, with advice.

    Empty where these take less than 1 % of the idle node-hours, or nobody could train at all.
    """
    most_nodes = sorted((run.trainer.most_nodes for run in runs), reverse=True)
    if not most_nodes or not len(holes):
        return ""
    at_s, level = idle_steps(holes)
    level, lasts_s = level[:-1], np.diff(at_s)
    idle_s = float((level * lasts_s).sum())
    reach = sum(most_nodes[:max_running])
    beyond_s = _beyond_s(level, lasts_s, reach)
    if beyond_s < _MATTERS * idle_s:
        return ""
    limited = (
        f"{count(min(max_running, len(runs)), 'trainer')} at once can use {count(reach, 'node')} at most: "
        f"{amount(beyond_s / SECONDS_PER_HOUR)} idle node-hours, {share(beyond_s / idle_s)} of all, lay above "
        "that. "
    )
    # The lowest number of nodes above which no more than 1 % of the node-seconds lie
    nodes = bisect_left(
        range(int(level.max())), True, key=lambda reach: _beyond_s(level, lasts_s, reach) <= _ALL_BUT * idle_s
    )
    suffices = max(ceil(nodes / float(np.mean(most_nodes))), 1)
    # Where fewer trainers came in than may run at once, more of them are needed, not another limit.
    if len(runs) < max_running:
        return f"{limited}No more trainers came; about {number(suffices)} like them could use 99 % of all."
    return f"{limited}About {number(suffices)} (--max-running {suffices}) could use 99 % of all."


def _beyond_s(level: Floats, lasts_s: Floats, reach: float) -> float:
    return float((np.maximum(level - reach, 0.0) * lasts_s).sum())
