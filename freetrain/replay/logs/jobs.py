"""The jobs of all files together: on which nodes they ran, and what that leaves to say about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.errors import InputError
from freetrain.replay.logs.first_fit import peak_in_use
from freetrain.replay.logs.machine import Machine, read_machine, uniform_machine
from freetrain.replay.logs.model import NodeGroup, ReadOptions
from freetrain.replay.logs.node_sizes import NodeSizes, node_sizes
from freetrain.replay.logs.nodelists import MOST_NODES
from freetrain.replay.logs.parsed import MachineSize, ParsedFile, seen, take_runs, without_repeats
from freetrain.replay.logs.placing import Placed, place_by_lists, place_by_packing
from freetrain.replay.logs.proof import Proof, prove
from freetrain.replay.logs.runaways import cut_by_limits, cut_by_requeues, cut_by_successors
from freetrain.replay.logs.tally import RowTally
from freetrain.replay.logs.window import Window


@dataclass(frozen=True, slots=True)
class JobsOnNodes:
    """The jobs of a log on the machine's nodes.

    Attributes:
        placed: which run was on which nodes.
        packed: the log does not say; the runs were packed first-fit.
        notes: sentences for the report.
        name: the machine's; empty where neither a machine file nor the log says it.
        kinds: its kinds of nodes, where a machine file tells them apart.
        sizes: what its nodes have, as far as it is known; None: jobs were packed on nodes that they do not share.
    """

    placed: Placed
    packed: bool
    notes: tuple[str, ...]
    name: str = ""
    kinds: tuple[NodeGroup, ...] = ()
    sizes: NodeSizes | None = None


def jobs_on_nodes(files: Sequence[ParsedFile], options: ReadOptions, tally: RowTally) -> tuple[JobsOnNodes, Proof]:
    """Put the jobs of all files on the machine's nodes; their runs are taken out of them.

    Raises:
        InputError: if no job ran, or the machine is not known.
    """
    runs = take_runs(files)
    proof = prove(pl.concat([seen(runs), *(file.unused for file in files)]))
    count = len(runs)
    runs = without_repeats(runs)
    tally.ignore("repeated row", count - len(runs))
    if proof is None or runs.is_empty():
        tally.stop_if_mostly_bad()
        raise _no_job_ran(tally)
    cluster = _only_cluster(files)
    runs, requeued = cut_by_requeues(runs)
    runs, past_limit = cut_by_limits(runs, proof.latest_submit_s)
    machine = described = read_machine(options.machine) if options.machine is not None else None
    notes = [*(note for file in files for note in file.notes), *requeued, *past_limit]
    packed = not runs.select((pl.col("node_list") != "").any()).item()
    if packed:
        size = next((file.size for file in files if file.size is not None), None)
        machine = machine or _assumed_machine(runs, options.nodes, size)
        placed = place_by_packing(runs, machine, tally)
        notes.append(_packing_note(machine))
    else:
        others = tuple(text for file in files for text in file.other_lists)
        # Nobody else holds the runs then, so that what is not needed for long is freed there.
        handed_over = [runs]
        del runs
        placed = place_by_lists(handed_over.pop(), machine, options.nodes, tally, others)
        placed, taken_over = cut_by_successors(placed)
        notes += taken_over
    tally.stop_if_mostly_bad()
    if placed.runs.is_empty():
        raise _no_job_ran(tally)
    name, kinds = (described.name, _kinds(described)) if described is not None else (cluster, ())
    shows_parts = not packed or (machine is not None and any(pool.shared for pool in machine.pools))
    sizes = node_sizes(machine, placed.busy.node_names) if shows_parts else None
    return JobsOnNodes(placed, packed, (*notes, *placed.notes), name, kinds, sizes), proof


def settle_window(jobs: JobsOnNodes, window: Window, tally: RowTally) -> tuple[list[str], list[str]]:
    """Count runs outside the window as ignored; notes on what else it does to the jobs, and warnings."""
    start_s, end_s = jobs.placed.busy.start_s, jobs.placed.busy.end_s
    inside = (end_s > window.from_s) & (start_s < window.until_s)
    tally.ignore("outside the window", int((~inside).sum()))
    cut = inside & ((start_s < window.from_s) | (end_s > window.until_s))
    endless = inside & np.isinf(end_s)
    within_s = end_s.clip(window.from_s, window.until_s) - start_s.clip(window.from_s, window.until_s)
    notes = []
    if not inside.any():
        notes.append("No job ran within the window: every node looks idle throughout.")
    if cut.any():
        notes.append(f"{_jobs(cut)} over the window's edges and cut there.")
    if endless.any():
        notes.append(f"{_jobs(endless)} without an end (still running then) and busy to the window's end.")
    short_h = float((jobs.placed.missing_nodes * within_s).sum()) / SECONDS_PER_HOUR
    if short_h > 0:
        notes.append(f"Packing found no room for {short_h:,.1f} node-hours of the jobs; they are left out.")
    return notes, _unlike_the_machine(jobs.placed, jobs.packed, inside, within_s, short_h)


def _unlike_the_machine(
    placed: Placed, packed: bool, inside: NDArray[np.bool_], within_s: NDArray[np.float64], short_h: float
) -> list[str]:
    """Warnings where the jobs within the window and the machine do not belong together.

    Args:
        placed: the jobs on their nodes.
        packed: whether the log names no nodes.
        inside: which of them are within the window.
        within_s: for how long each is.
        short_h: node-hours of jobs for which there was no room.
    """
    asked = np.ceil(placed.count + placed.missing_nodes).astype(np.int64)
    asked_h = float((asked * within_s)[inside].sum()) / SECONDS_PER_HOUR
    nodes = len(placed.busy.node_names)
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


_MUCH = 0.01
"""Of the jobs' node-hours so much may find no room: one that is larger than the machine, by mistake."""
_USUAL_PEAK = 0.7
"""Whole machines are in use to this part at least, at some time of a window."""


def _assumed_machine(runs: pl.DataFrame, nodes: int | None, size: MachineSize | None) -> Machine:
    """The machine of a log without node lists, from --nodes or the log's header."""
    if nodes is not None:
        cores = -(-size.nodes * size.cores_per_node // nodes) if size is not None else 1
        return uniform_machine("--nodes", nodes, min(cores, MOST_NODES))
    if size is not None:
        return uniform_machine("the log's header", size.nodes, size.cores_per_node)
    counted = runs["nodes"].fill_null(runs["cores"]).fill_null(0).to_numpy()
    peak = peak_in_use(runs["start_s"].to_numpy(), runs["end_s"].to_numpy(), counted)
    what = "processors" if runs["nodes"].is_null().all() else "nodes"
    raise InputError(
        "The log names no nodes, so the size of the machine is not known.",
        f"Give --nodes N or --machine FILE.toml; the log has up to {peak:,} {what} in use at once.",
    )


def _packing_note(machine: Machine) -> str:
    how = {True: "shared by the core", False: "taken whole"}
    pools = ", ".join(
        f"pool {pool.name}: {pool.end - pool.begin:,} nodes {how[pool.shared]}" for pool in machine.pools
    )
    return (
        "The log names no nodes: its jobs were packed first-fit, lowest node first, on the machine of "
        f"{machine.name} ({pools}). Which nodes are idle together, and for how long, is an assumption."
    )


def _kinds(machine: Machine) -> tuple[NodeGroup, ...]:
    return tuple(NodeGroup(pool.name, machine.node_names[pool.begin : pool.end]) for pool in machine.pools)


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


def _jobs(which: NDArray[np.bool_]) -> str:
    count = int(which.sum())
    return "1 job is" if count == 1 else f"{count:,} jobs are"
