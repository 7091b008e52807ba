"""The jobs of all files together: on which nodes they ran, and which of them never ended.

A runaway job still runs by the log, but it ended long ago, and Slurm's database was never informed. Such jobs end
at their limits, where the same job begins again, or where others ran on their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes, taken
from freetrain.errors import InputError
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.machine import LoggedMachine, NodeSizes, node_sizes, read_machine, uniform_machine
from freetrain.replay.logs.model import LoggedJobs, ReadOptions
from freetrain.replay.logs.nodelists import MAX_NODES, NodeLists, gathered
from freetrain.replay.logs.parsed import (
    ParsedFile,
    RowTally,
    distinct_texts,
    seen,
    take_runs,
    without_repeats,
)
from freetrain.replay.logs.placing import PlacedJobs, peak_in_use, place_by_lists, place_by_packing, spread_evenly
from freetrain.replay.logs.times import iso
from freetrain.replay.logs.window import CoveredTime, LogWindow, covered_time

_MUCH = 0.01
"""Part of the jobs' node-hours that may find no room: a job that is larger than the machine, by mistake."""
_USUAL_PEAK = 0.7
"""Part of a whole machine that is in use at least, at some time of a window."""
_GRACE_S = 86_400.0
"""Seconds that a job may outlast its limit: suspended meanwhile, or as Slurm's OverTimeLimit allows."""
_WEEK_S = 7 * 86_400.0
_MOMENT_S = 60.0
"""Seconds: jobs that overlap for less have the node one after the other."""
_HINT = "`sacctmgr show runawayjobs` finds such jobs and mends them."


@dataclass(frozen=True, slots=True)
class LoggedUse:
    """Use of the machine: when its nodes are busy, however the log tells it.

    Attributes:
        placed: its jobs; None: it tells of nodes only.
        packed: whether jobs were packed first-fit, since the log does not say where they ran.
        name: the machine's; empty where neither a machine file nor the log says it.
        kind_of: node → its kind, where a machine file tells them apart.
        sizes: sizes of its nodes, as far as known; None: jobs were packed on nodes that they do not share.
    """

    busy: BusyTimes
    proof: CoveredTime
    placed: PlacedJobs | None = None
    packed: bool = False
    name: str = ""
    kind_of: Mapping[str, str] = field(default_factory=dict)
    sizes: NodeSizes | None = None


def jobs_on_nodes(files: Sequence[ParsedFile], options: ReadOptions, tally: RowTally) -> LoggedUse:
    """Put the jobs of all files on the machine's nodes; their runs are taken out of them.

    Raises:
        InputError: if no job ran, or the machine is not known.
    """
    runs = take_runs(files)
    proof = covered_time(pl.concat([seen(runs), *(file.unused for file in files)]))
    count = len(runs)
    runs = without_repeats(runs)
    tally.ignore("repeated row", count - len(runs))
    if proof is None or runs.is_empty():
        tally.stop_if_mostly_bad()
        raise _no_job_ran(tally)
    cluster = _only_cluster(files)
    runs = cut_by_requeues(runs, tally)
    runs = cut_by_limits(runs, proof.latest_submit_s, tally)
    machine = described = read_machine(options.machine) if options.machine is not None else None
    packed = not runs.select((pl.col("node_list") != "").any()).item()
    if packed:
        shown = next((file.machine for file in files if file.machine is not None), None)
        machine = machine or _assumed_machine(runs, options.nodes, shown)
        placed = place_by_packing(runs, machine, tally)
    else:
        others = tuple(text for file in files for text in file.other_lists)
        # Nobody else holds the runs then, so that what is not needed for long is freed there.
        handed_over = [runs]
        del runs
        placed = place_by_lists(handed_over.pop(), machine, options.nodes, tally, others)
        placed = cut_by_successors(placed, tally)
    tally.stop_if_mostly_bad()
    if placed.runs.is_empty():
        raise _no_job_ran(tally)
    name, kind_of = (described.name, described.kind_of) if described is not None else (cluster, {})
    shows_parts = not packed or (machine is not None and any(pool.shared for pool in machine.pools))
    sizes = node_sizes(machine, placed.busy.node_names) if shows_parts else None
    return LoggedUse(placed.busy, proof, placed, packed, name, kind_of, sizes)


def settle_window(placed: PlacedJobs, packed: bool, window: LogWindow, tally: RowTally) -> None:
    """Count runs outside the window as ignored; note what else it does to the jobs, and warn."""
    start_s, end_s = placed.busy.start_s, placed.busy.end_s
    inside = (end_s > window.from_s) & (start_s < window.until_s)
    tally.ignore("outside the window", int((~inside).sum()))
    cut = inside & ((start_s < window.from_s) | (end_s > window.until_s))
    endless = inside & np.isinf(end_s)
    within_s = placed.busy.lasts_s(window.from_s, window.until_s)
    if not inside.any():
        tally.notes.append("No job ran within the window: every node looks idle throughout.")
    if cut.any():
        tally.notes.append(f"{_jobs_are(cut)} over the window's edges and cut there.")
    if endless.any():
        tally.notes.append(
            f"{_jobs_are(endless)} without an end (still running then) and busy to the window's end."
        )
    short_h = float((placed.missing_nodes * within_s).sum()) / SECONDS_PER_HOUR
    if short_h > 0:
        tally.notes.append(f"Packing found no room for {short_h:,.1f} node-hours of the jobs; they are left out.")
    # Bad rows are held against those of the window.
    tally.warn_if_many_bad()
    tally.warnings += _unlike_the_machine(placed, packed, inside, within_s, short_h)


def _unlike_the_machine(
    placed: PlacedJobs, packed: bool, inside: NDArray[np.bool_], within_s: NDArray[np.float64], short_h: float
) -> list[str]:
    """Warnings where the jobs within the window and the machine do not belong together."""
    asked = np.ceil(placed.count + placed.missing_nodes).astype(np.int64)
    asked_h = float((asked * within_s)[inside].sum()) / SECONDS_PER_HOUR
    nodes = len(placed.busy.node_names)
    if not packed and short_h <= _MUCH * asked_h:
        return []
    peak = peak_in_use(placed.busy.start_s[inside], placed.busy.end_s[inside], asked[inside])
    if short_h > _MUCH * asked_h:
        return [
            f"{100 * short_h / asked_h:.0f} % of the jobs' node-hours found no room on the {nodes:,} nodes of the "
            f"machine: the log has up to {peak:,} in use at once. Give --nodes {peak} or more, or --machine FILE."
        ]
    if packed and inside.any() and peak < _USUAL_PEAK * nodes:
        return [
            f"The log never has more than {peak:,} of the machine's {nodes:,} nodes in use at once: if it is a "
            f"part of what ran there, the others only look idle. Give --nodes {peak}, or a log of all jobs."
        ]
    return []


def _assumed_machine(runs: pl.DataFrame, nodes: int | None, shown: LoggedMachine | None) -> LoggedMachine:
    """The machine of a log without node lists, from --nodes or the log's header."""
    if nodes is not None:
        cores = -(-len(shown.node_names) * shown.pools[0].cores // nodes) if shown is not None else 1
        return uniform_machine("--nodes", nodes, min(cores, MAX_NODES))
    if shown is not None:
        return shown
    counted = runs["nodes"].fill_null(runs["cores"]).fill_null(0).to_numpy()
    peak = peak_in_use(runs["start_s"].to_numpy(), runs["end_s"].to_numpy(), counted)
    what = "processors" if runs["nodes"].is_null().all() else "nodes"
    raise InputError(
        "The log names no nodes, so the size of the machine is not known.",
        f"Give --nodes N or --machine FILE.toml; the log has up to {peak:,} {what} in use at once.",
    )


def _only_cluster(files: Sequence[ParsedFile]) -> str:
    """The one cluster whose jobs these are; empty where the log does not name it."""
    clusters = sorted({cluster for file in files for cluster in file.clusters})
    if len(clusters) > 1:
        raise InputError(
            f"The log holds jobs of {len(clusters)} clusters ({', '.join(clusters[:10])}), each its own machine.",
            f"Choose one, as with --cluster {clusters[0]}.",
        )
    return clusters[0] if clusters else ""


def _no_job_ran(tally: RowTally) -> InputError:
    return InputError(
        f"There is no job in the log that ran: {tally.summary()}.",
        "Check that it is the right file and that sacct was run with -a and the right --starttime.",
    )


def _jobs_are(which: NDArray[np.bool_]) -> str:
    count = int(which.sum())
    return "1 job is" if count == 1 else f"{count:,} jobs are"


def cut_by_limits(runs: pl.DataFrame, last_s: float, tally: RowTally) -> pl.DataFrame:
    """End jobs without an end at their limits if these passed more than a day before the log's end."""
    has_no_end, limit = pl.col("end_s").is_infinite(), pl.col("start_s") + pl.col("limit_s")
    past = limit + _GRACE_S < last_s
    # Few jobs of a large log have no end: of these alone it is asked when they passed their limits.
    gone = runs.filter(has_no_end).filter(past)
    if gone.is_empty():
        return runs
    tally.notes.append(_named(gone, "that are past their time limits count until these passed"))
    end = pl.when(has_no_end & past).then(limit).otherwise(pl.col("end_s"))
    return runs.with_columns(end.alias("end_s"))


def cut_by_requeues(runs: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
    """End runs without an end where the same job begins again: it was requeued then at the latest."""
    endless = runs.select("job", pl.col("end_s").is_infinite()).filter("end_s").select("job").unique()
    # Of few jobs the end is not known: to put the runs of all in order would take an eighth of all reading.
    of_these = runs.select("job", "start_s", "end_s").with_row_index("row").join(endless, on="job", how="semi")
    again_s = pl.col("start_s").shift(-1).over("job", order_by="start_s")
    of_these = of_these.with_columns(again_s.alias("again_s"))
    over = of_these.filter(pl.col("end_s").is_infinite() & (pl.col("again_s") > pl.col("start_s")))
    if over.is_empty():
        return runs
    tally.notes.append(_named(over, "count until they began again (requeued, as after a node failed)"))
    return runs.with_columns(runs["end_s"].scatter(over["row"], over["again_s"]))


def cut_by_successors(placed: PlacedJobs, tally: RowTally) -> PlacedJobs:
    """End jobs without an end or a limit where others began, and ended, on nodes that they had for themselves.

    That they still run is believed for a week. On nodes that jobs share, nothing follows from others there: such
    jobs are named, and stay.
    """
    busy = placed.busy
    suspect = np.isinf(busy.end_s) & np.isinf(placed.runs["limit_s"].to_numpy())
    if not suspect.any():
        return placed
    old = _outlived(busy, suspect)
    old = old.with_columns(placed.runs["job"].gather(old["run"]).alias("job"))
    over = old.filter(~pl.col("is_shared"))
    end_s = busy.end_s.copy()
    end_s[over["run"].to_numpy()] = over["first_s"].to_numpy()
    tally.notes += (
        _named(which, what)
        for which, what in (
            (old.filter("is_shared"), "count as running, though others have run on their nodes for a week"),
            (over, "on whose nodes others ran since count until these began"),
        )
        if len(which)
    )
    return replace(placed, busy=replace(busy, end_s=end_s))


def _outlived(busy: BusyTimes, suspect: NDArray[np.bool_]) -> pl.DataFrame:
    """Suspects on whose nodes jobs with an end began a week later or later; the first of these: ``first_s``.

    ``is_shared``: one of their nodes had two jobs at a time, both of them with an end or both without.
    """
    # All rows of the nodes that suspects have: of large logs these are few.
    has_suspects = np.zeros(len(busy.node_names), bool)
    has_suspects[busy.node[taken(suspect, busy.interval)]] = True
    own = np.flatnonzero(taken(has_suspects, busy.node))
    run = busy.interval[own]
    columns = {"node": busy.node[own], "run": run, "start_s": busy.start_s[run], "end_s": busy.end_s[run]}
    rows = pl.DataFrame(columns).sort("node", "start_s", maintain_order=True)
    has_end = pl.col("end_s").is_finite()
    beside = pl.col("start_s").shift(-1).over("node", has_end) + _MOMENT_S < pl.col("end_s")
    is_shared = pl.col("node").is_in(rows.filter(beside)["node"].unique().implode()).any()
    ended = rows.filter(has_end).select("node", pl.col("start_s").alias("first_s"))
    last = ended.group_by("node").agg(pl.col("first_s").max().alias("last_s"))
    return (
        rows.filter(suspect[rows["run"].to_numpy()])
        .join_asof(
            ended,
            left_on="start_s",
            right_on="first_s",
            by="node",
            strategy="forward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .join(last, on="node", how="left")
        .group_by("run", "start_s")
        .agg(pl.col("first_s").min(), pl.col("last_s").max(), is_shared.alias("is_shared"))
        .filter(pl.col("last_s") >= pl.col("start_s") + _WEEK_S)
        .sort("run")
    )


def _named(gone: pl.DataFrame, what: str) -> str:
    first = gone.sort("start_s").row(0, named=True)
    which = f"the first: job {first['job']}, started {iso(first['start_s'])}"
    return f"Jobs without an end in the log {what}: {len(gone):,} ({which}). {_HINT}"


def logged_jobs(placed: PlacedJobs, holes: Holes, with_held: bool = False) -> LoggedJobs:
    """The jobs that ran within the window on these nodes; ``with_held``: with amounts that each had of them."""
    runs, start_s, end_s = placed.runs, placed.busy.start_s, placed.busy.end_s
    lists = _on_nodes_looked_at(placed, holes)
    inside = (np.diff(lists.begin) > 0) & (end_s > holes.from_s) & (start_s < holes.until_s)
    rows = np.flatnonzero(inside)
    rows = rows[np.argsort(start_s[rows], kind="stable")]
    node, count = gathered(lists, rows)
    submit_s = runs["submit_s"].to_numpy()
    names, partition = _partitions(runs["partition"], rows)
    return LoggedJobs(
        ids=runs["job"].gather(rows),
        partition_names=names,
        partition=partition,
        submit_s=np.fmin(submit_s, start_s)[rows],
        start_s=start_s[rows],
        end_s=end_s[rows],
        limit_s=runs["limit_s"].to_numpy()[rows],
        begin=np.concatenate([np.zeros(1, np.int64), np.cumsum(count)]),
        node=node,
        held=_held(placed)[rows] if with_held else None,
    )


def _held(placed: PlacedJobs) -> NDArray[np.float64]:
    """CPUs, bytes of memory and GPUs that each run had of each of its nodes; where they differ, the most."""
    cores = placed.cores
    if placed.cores_by_row:
        # Of a run without nodes reduceat would take another run's amount.
        first, some = np.cumsum(placed.count) - placed.count, placed.count > 0
        cores = np.full(len(placed.runs), np.nan)
        if some.any():
            cores[some] = np.maximum.reduceat(placed.cores, first[some])
    amounts = (spread_evenly(placed.runs[name], placed.count) for name in ("memory_bytes", "gpus"))
    return np.stack([cores, *amounts], axis=1)


def _partitions(partition: pl.Series, rows: NDArray[np.intp]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    texts, number = distinct_texts(partition)
    known, number = [name or "main" for name in texts], number[rows]
    names = sorted({known[at] for at in np.unique(number).tolist()})
    place = {name: at for at, name in enumerate(names)}
    return tuple(names), np.array([place.get(name, -1) for name in known], np.int32)[number]


def _on_nodes_looked_at(placed: PlacedJobs, holes: Holes) -> NodeLists:
    """Each run's nodes by their position among the holes' nodes; others are left out."""
    ends = np.append(0, np.cumsum(placed.count))
    if holes.node_names == placed.busy.node_names:
        return NodeLists(ends, placed.busy.node, {})
    position = {name: number for number, name in enumerate(holes.node_names)}
    renumbered = np.array([position.get(name, -1) for name in placed.busy.node_names], dtype=np.int32)
    node = taken(renumbered, placed.busy.node)
    looked_at = node >= 0
    # How many of them there are up to the end of each run.
    upto = np.append(np.int32(0), np.cumsum(looked_at, dtype=np.int32))
    return NodeLists(upto[ends].astype(np.int64), node[looked_at], {})
