"""``freetrain drain`` and ``freetrain undrain``: empty nodes for maintenance, and lend them again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.node_lists import read_nodes
from freetrain.cli.noting import AuditWriter
from freetrain.cli.options import config_option, end_of, end_options
from freetrain.cli.times import Duration
from freetrain.config import Config, load_config
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Nodes
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.controls.pause import Drain, are_heeded, changing, read_drains, without
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.showing.words import show_time
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import fold_nodes

_LOOK_EVERY_S = 0.5
_PATIENCE = "5m"


@command("drain", context_settings=LISTING, first=("--until", "--for", "--wait", "--timeout", "--dry-run"))
@config_option
@end_options
@click.option("--wait", is_flag=True, help="Return when no fragment is left on the nodes; status 75 if one stays.")
@click.option(
    "--timeout", "timeout_s", type=Duration(endless=True), default=_PATIENCE, show_default=True,
    help="How long --wait waits at most.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@click.argument("nodes", required=False)
@listing_options
def drain_command(
    config_path: Path | None,
    until_s: float | None,
    for_s: float | None,
    wait: bool,
    timeout_s: float,
    dry_run: bool,
    nodes: str | None,
    shape: Shape,
) -> None:
    """Take NODES back from the trainings, and lend them to none until a time, or until 'freetrain undrain'.

    Without NODES, list what is drained. This is for accounts that may write the daemon's state directory: root,
    and the daemon's account. Slurm's own jobs and the state of its nodes are not touched.
    """
    config = load_config(config_path).config
    directory = Path(config.state.directory)
    if nodes is None:
        _list(read_drains(directory, time.time()), find_standing(config), shape)
        return
    names = read_nodes(nodes)
    slurm = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    _require_known(names, slurm.snapshot(), config)
    now_s = time.time()
    end_s = end_of(until_s, for_s, now_s)
    until = f" until {show_time(end_s)}" if end_s else ""
    if dry_run:
        click.echo(f"would take {fold_nodes(names)} back and lend none of them{until}")
        return
    entry = AuditWriter(directory).noted(f"freetrain drain {fold_nodes(names)}", result=f"drained{until}")
    with entry, changing(directory, now_s) as drains:
        drains[:] = [*without(drains, names), Drain(nodes=names, until_s=end_s)]
    _tell_daemon(directory, wait)
    if wait:
        _wait_until_empty(names, slurm, config, timeout_s)


@command("undrain")
@config_option
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@click.argument("nodes")
def undrain_command(config_path: Path | None, dry_run: bool, nodes: str) -> None:
    """Let freetrain lend NODES again that were drained."""
    directory = Path(load_config(config_path).config.state.directory)
    names = read_nodes(nodes)
    now_s = time.time()
    others = names - frozenset().union(*(drain.nodes for drain in read_drains(directory, now_s)))
    if others:
        raise InputError(f"{fold_nodes(others)} is not drained.", "'freetrain drain' lists what is.")
    if dry_run:
        click.echo(f"would lend {fold_nodes(names)} again")
        return
    with (
        AuditWriter(directory).noted(f"freetrain undrain {fold_nodes(names)}"),
        changing(directory, now_s) as drains,
    ):
        drains[:] = without(drains, names)
    _tell_daemon(directory, must_run=False)


def _list(drains: tuple[Drain, ...], standing: Standing, shape: Shape) -> None:
    shape.begin(standing)
    document = {
        "format": "freetrain-drains/1",
        "daemon": standing.document(),
        "drains": [{"nodes": sorted(drain.nodes), "until": drain.until_s} for drain in drains],
    }
    rows = [(fold_nodes(drain.nodes), str(len(drain.nodes)), show_time(drain.until_s)) for drain in drains]
    shape.print(document, ("NODES", "COUNT", "UNTIL"), rows, ("COUNT",), otherwise="No node is drained.")


def _require_known(names: Nodes, snapshot: Snapshot, config: Config) -> None:
    unknown = names - snapshot.node.keys()
    if unknown:
        raise InputError(f"Slurm has no node {fold_nodes(unknown)}.", "'sinfo -N' lists the nodes.")
    queue = config.slurm.queue
    if queue.missing(snapshot.partitions):
        return
    if outside := names - queue.among(snapshot.partitions).nodes:
        click.echo(f"freetrain: {fold_nodes(outside)} is not in {queue} and is never lent.", err=True)


def _tell_daemon(directory: Path, must_run: bool) -> None:
    if is_claimed(directory):
        with contextlib.suppress(FreetrainError):  # it looks soon in any case
            send_nudge(directory)
        return
    what = f"no daemon works in {directory}: this counts from its next start on, and nothing is taken back before."
    if must_run:
        hint = "Start it, or end the fragments with scancel --partition=… --qos=… --nodelist=…"
        raise FreetrainError(f"N{what[1:]}", hint, ExitCode.TRY_AGAIN)
    click.echo(f"freetrain: {what}", err=True)


def _wait_until_empty(names: Nodes, slurm: Gateway, config: Config, timeout_s: float) -> None:
    """Return when the daemon lends nothing there any more, and nothing that it lent is left.

    Raises:
        FreetrainError: it is not so within the time.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        is_heeded = are_heeded(Path(config.state.directory))
        left = _left(slurm.snapshot(), names, config.slurm.queue)
        if is_heeded and not left:
            return
        if time.monotonic() > deadline_s:
            break
        time.sleep(_LOOK_EVERY_S)
    what = ", ".join(f"{job} on {node}" for node, job in sorted(left.items())) or "the daemon has not looked yet"
    raise FreetrainError(
        f"The nodes are not empty after {timeout_s:.0f} s: {what}.",
        "They stay drained. See what the daemon logs, and whether lend.mode is act.",
        ExitCode.TRY_AGAIN,
    )


def _left(snapshot: Snapshot, names: Nodes, queue: FragmentQueue) -> Mapping[str, str]:
    """Node → the job of the queue that still has it."""
    return {
        node: job.id
        for job in snapshot.jobs
        if queue.has(job) and job.state.has_nodes
        for node in job.nodes & names
    }
