"""Orders to the daemon: pause and resume lending, drain and undrain nodes, nudge it.

``freetrain pause`` lends nothing more and takes nothing back, ``freetrain drain`` takes nodes back. With a
training, ``freetrain resume`` lets it go on after failures that its owner has looked into.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape
from freetrain.cli.options import Duration, End, argument, dry_run_option, option, read_nodes
from freetrain.cli.site import Site, who_am_i
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Nodes
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.controls.pause import (
    Drain,
    Pause,
    are_heeded,
    changing,
    read_drains,
    read_pause,
    stop_file_there,
    without,
    write_pause,
)
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.showing.words import show_time
from freetrain.slurm import commands
from freetrain.slurm.comments import answer_in, ask_to_resume, asked_to_resume, says_paused
from freetrain.slurm.gateway import USERS_PAUSES_S
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import WrongTag


@command("nudge")
def nudge_command(site: Site) -> None:
    """Make the daemon on this machine look at the cluster at once; for scripts."""
    send_nudge(site.directory)


_LONGEST_REASON = 200


@command("pause")
def pause_command(
    site: Site,
    end: End,
    reason: str = option("--reason", "Why; everybody sees it.", default="", show_default=False),
    dry_run: bool = dry_run_option,
) -> None:
    """Lend nothing more, until a time, or until 'freetrain resume'.

    What is lent stays lent and gives way to the site's jobs as always; 'freetrain drain' takes nodes back. This is
    for accounts that may write the daemon's state directory: root, and the daemon's account.
    """
    now_s = time.time()
    pause = Pause(by=who_am_i(), reason=reason[:_LONGEST_REASON], since_s=now_s, until_s=end.after(now_s))
    if dry_run:
        click.echo(f"would lend nothing more: {pause.sentence}")
        return
    with site.audit.noted("freetrain pause", result=pause.sentence):
        write_pause(site.directory, pause)
    click.echo(f"Nothing more is lent: {pause.sentence}.")
    _tell_daemon(site)


def _end_pause(site: Site, dry_run: bool) -> None:
    stop_file = stop_file_there(site.config.state)
    stops = f" Nothing is lent while {stop_file} exists: remove it." if stop_file else ""
    if read_pause(site.directory, time.time()) is None:
        click.echo(f"Lending is not paused.{stops}")
        return
    if dry_run:
        click.echo("would end the pause")
        return
    with site.audit.noted("freetrain resume"):
        write_pause(site.directory, None)
    click.echo(f"The pause has ended.{stops}" if stops else "Nodes are lent again.")
    _tell_daemon(site)


def _tell_daemon(site: Site, and_so: str = "", must_run: bool = False) -> None:
    """Let the daemon look at once; say so if there is none."""
    if is_claimed(site.directory):
        site.nudge()
        return
    what = f"o daemon works in {site.directory}: this counts from its next start on{and_so}."
    if must_run:
        hint = "Start it, or end the fragments with scancel --partition=… --qos=… --nodelist=…"
        raise FreetrainError(f"N{what}", hint, ExitCode.TRY_AGAIN)
    click.echo(f"freetrain: n{what}", err=True)


_WHEN = "from the daemon's next look on"


@command("resume")
def resume_command(
    site: Site,
    dry_run: bool = option("--dry-run", "Print what would be done."),
    id_: str | None = argument(metavar="ID", required=False),
) -> None:
    """End the site's pause; or let the training ID, which was paused after failures, compete for nodes again.

    Without ID this is for root and the daemon's account: it ends what 'freetrain pause' began.

    With ID it asks for it in the job's comment, which only its owner may change, or an operator; the daemon takes
    it out again. A training that rests after a failure need not rest any longer.
    """
    if id_ is None:
        _end_pause(site, dry_run)
        return
    submission = site.training(id_, site.slurm.snapshot())
    known = _known_state(site, id_)
    _check(submission, known)
    asking = commands.set_comment(submission.open_tasks, ask_to_resume(submission.comment, time.time()))
    if dry_run:
        click.echo(shlex.join(asking))
        return
    with site.audit.noted(f"freetrain resume {id_}", asking):
        site.slurm.perform_patiently(asking, pauses_s=USERS_PAUSES_S)
    site.nudge()
    click.echo(_what_is_so(submission, known))


def _known_state(site: Site, id_: str) -> TrainerState | None:
    known = site.standing.trainers.get(id_)
    return next((state for state in TrainerState if known and state == known.state), None)


def _check(submission: Submission, known: TrainerState | None) -> None:
    id_, answer = submission.id, answer_in(submission.comment)
    tag = submission.tag
    if isinstance(tag, WrongTag):
        raise InputError(
            f"Training {id_} is not paused but refused: {tag.why}.",
            f"Mend its tag: scontrol update JobId={submission.open_tasks or id_} Comment='freetrain:…'.",
        )
    if not submission.open_tasks:
        raise FreetrainError(
            f"All tasks of training {id_} have ended, and Slurm changes nothing of what has ended.",
            "If they failed the daemon takes them up at its next look: try again then. Else submit it again.",
            ExitCode.TRY_AGAIN,
        )
    if known is TrainerState.REFUSED:
        raise InputError(f"Training {id_} is not paused but refused: {answer}.", "Submit it again.")
    if known is TrainerState.ACTIVE and not says_paused(submission.comment):
        raise InputError(f"Training {id_} is not paused.", "freetrain jobs shows its state.")


def _what_is_so(submission: Submission, known: TrainerState | None) -> str:
    if says_paused(submission.comment) or known is TrainerState.PAUSED:
        return f"Training {submission.id} competes for nodes again {_WHEN}."
    if known is TrainerState.RESTING:
        return f"Training {submission.id} was not paused but rested after a failure; it competes again {_WHEN}."
    if asked_to_resume(submission.comment):
        return f"Training {submission.id} had been asked to go on before; it competes for nodes {_WHEN}."
    return f"Nothing says that training {submission.id} is paused. If it is, it competes for nodes again {_WHEN}."


_LOOK_EVERY_S = 0.5
_PATIENCE = "5m"
_NOTHING_TAKEN_BACK = ", and nothing is taken back before"


@command("drain", context_settings=LISTING, first=("--until", "--for", "--wait", "--timeout", "--dry-run"))
def drain_command(
    *,
    site: Site,
    end: End,
    wait: bool = option("--wait", "Return when no fragment is left on the nodes; status 75 if one stays."),
    timeout_s: float = option(
        "--timeout", "How long --wait waits at most.", type=Duration(endless=True), default=_PATIENCE
    ),
    dry_run: bool = dry_run_option,
    nodes: str | None = argument(required=False),
    shape: Shape,
) -> None:
    """Take NODES back from the trainings, and lend them to none until a time, or until 'freetrain undrain'.

    Without NODES, list what is drained. This is for accounts that may write the daemon's state directory: root,
    and the daemon's account. Slurm's own jobs and the state of its nodes are not touched.
    """
    if nodes is None:
        _list(site, shape)
        return
    names = read_nodes(nodes)
    _require_known(names, site.slurm.snapshot(), site.config.slurm.queue)
    now_s = time.time()
    end_s = end.after(now_s)
    until = f" until {show_time(end_s)}" if end_s else ""
    if dry_run:
        click.echo(f"would take {fold_nodes(names)} back and lend none of them{until}")
        return
    entry = site.audit.noted(f"freetrain drain {fold_nodes(names)}", result=f"drained{until}")
    with entry, changing(site.directory, now_s) as drains:
        drains[:] = [*without(drains, names), Drain(nodes=names, until_s=end_s)]
    _tell_daemon(site, _NOTHING_TAKEN_BACK, must_run=wait)
    if wait:
        _wait_until_empty(names, site, timeout_s)


@command("undrain")
def undrain_command(site: Site, dry_run: bool = dry_run_option, nodes: str = argument()) -> None:
    """Let freetrain lend NODES again that were drained."""
    names = read_nodes(nodes)
    now_s = time.time()
    others = names - frozenset().union(*(drain.nodes for drain in read_drains(site.directory, now_s)))
    if others:
        raise InputError(f"{fold_nodes(others)} is not drained.", "'freetrain drain' lists what is.")
    if dry_run:
        click.echo(f"would lend {fold_nodes(names)} again")
        return
    entry = site.audit.noted(f"freetrain undrain {fold_nodes(names)}")
    with entry, changing(site.directory, now_s) as drains:
        drains[:] = without(drains, names)
    _tell_daemon(site, _NOTHING_TAKEN_BACK)


def _list(site: Site, shape: Shape) -> None:
    drains = read_drains(site.directory, time.time())
    shape.begin(site.standing)
    entries = [{"nodes": sorted(drain.nodes), "until": drain.until_s} for drain in drains]
    document = site.document("freetrain-drains/1", drains=entries)
    rows = [(fold_nodes(drain.nodes), str(len(drain.nodes)), show_time(drain.until_s)) for drain in drains]
    shape.print(document, ("NODES", "COUNT", "UNTIL"), rows, ("COUNT",), otherwise="No node is drained.")


def _require_known(names: Nodes, snapshot: Snapshot, queue: FragmentQueue) -> None:
    unknown = names - snapshot.node.keys()
    if unknown:
        raise InputError(f"Slurm has no node {fold_nodes(unknown)}.", "'sinfo -N' lists the nodes.")
    if queue.missing(snapshot.partitions):
        return
    if outside := names - queue.among(snapshot.partitions).nodes:
        click.echo(f"freetrain: {fold_nodes(outside)} is not in {queue} and is never lent.", err=True)


def _wait_until_empty(names: Nodes, site: Site, timeout_s: float) -> None:
    """Return when the daemon lends nothing there any more, and nothing that it lent is left."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        # In this order: in the other one the daemon could lend a node after the look at the jobs.
        is_heeded = are_heeded(site.directory)
        left = _left(site.slurm.snapshot(), names, site.config.slurm.queue)
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
    return {
        node: job.id
        for job in snapshot.jobs
        if queue.has(job) and job.state.has_nodes
        for node in job.nodes & names
    }
