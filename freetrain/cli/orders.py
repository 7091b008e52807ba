"""Orders of people: pause and resume lending, drain and undrain nodes, nudge the daemon; cancel a training; panic.

``freetrain pause`` lends nothing more and takes nothing back, ``drain`` takes nodes back, ``panic`` everything.
With a training, ``resume`` lets it go on after failures that its owner has looked into.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape
from freetrain.cli.options import DurationType, EndTime, argument, dry_run_option, option, read_nodes
from freetrain.cli.site import AuditWriter, SiteContext, who_am_i
from freetrain.config import Config
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.known_trainer import TrainerState
from freetrain.core.node import Nodes
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.controls.site_orders import (
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
from freetrain.daemon.setup import launcher_of
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.lending.reconcile import find_strangers
from freetrain.showing.words import show_time
from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.comments import answer_in, ask_to_resume, asked_to_resume, says_paused
from freetrain.slurm.errors import SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import USERS_PAUSES_S, Gateway
from freetrain.slurm.launcher import Launcher, jobs_of_trainers
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.slurm.tags import WrongTag


@command("nudge")
def nudge_command(site: SiteContext) -> None:
    """Make the daemon on this machine look at the cluster at once; for scripts."""
    send_nudge(site.directory)


_LONGEST_REASON = 200


@command("pause")
def pause_command(
    site: SiteContext,
    end: EndTime,
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


def _end_pause(site: SiteContext, dry_run: bool) -> None:
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


def _tell_daemon(site: SiteContext, and_so: str = "", must_run: bool = False) -> None:
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
    site: SiteContext,
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
    listed = site.standing.trainers.get(id_)
    known = next((state for state in TrainerState if listed and state == listed.state), None)
    _check(submission, known)
    asking = commands.set_comment(submission.open_tasks, ask_to_resume(submission.comment, time.time()))
    if dry_run:
        click.echo(shlex.join(asking))
        return
    with site.audit.noted(f"freetrain resume {id_}", asking):
        site.slurm.perform_patiently(asking, pauses_s=USERS_PAUSES_S)
    site.nudge()
    click.echo(_what_is_so(submission, known))


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
    site: SiteContext,
    end: EndTime,
    wait: bool = option("--wait", "Return when no fragment is left on the nodes; status 75 if one stays."),
    timeout_s: float = option(
        "--timeout", "How long --wait waits at most.", type=DurationType(endless=True), default=_PATIENCE
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
def undrain_command(site: SiteContext, dry_run: bool = dry_run_option, nodes: str = argument()) -> None:
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


def _list(site: SiteContext, shape: Shape) -> None:
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


def _wait_until_empty(names: Nodes, site: SiteContext, timeout_s: float) -> None:
    """Return when the daemon lends nothing there any more, and nothing that it lent is left."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        # In this order: in the other one the daemon could lend a node after the look at the jobs.
        is_heeded = are_heeded(site.directory)
        left = {
            node: job.id
            for job in site.slurm.snapshot().jobs
            if site.config.slurm.queue.has(job) and job.state.has_nodes
            for node in job.nodes & names
        }
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


_YES = option("--yes", "Do not ask.")


@command("cancel")
def cancel_command(
    site: SiteContext,
    yes: bool = _YES,
    dry_run: bool = option("--dry-run", "Print what Slurm would be ordered to do."),
    id_: str = argument(metavar="ID"),
) -> None:
    """End the training ID for good: what waits of it is cancelled, and what runs of it gets its SIGTERM.

    Slurm lets its owner do so, and accounts that may steer the jobs of others. It is what scancel does with the
    array; with lend.launcher = "submit" the fragments that freetrain submitted for it are cancelled at once, too.
    No daemon is needed.
    """
    snapshot = site.slurm.snapshot()
    submission = site.training(id_, snapshot)
    if submission.is_over:
        raise FreetrainError(
            f"All tasks of training {id_} have ended, and Slurm cancels nothing that has ended.",
            "If they failed the daemon takes them up at its next look: try again then.",
            ExitCode.TRY_AGAIN,
        )
    orders = cancel_orders(submission, snapshot, site.config, launcher_of(site.config, site.slurm))
    if dry_run:
        click.echo("\n".join(map(shlex.join, orders)))
        return
    if not yes and sys.stdin.isatty():
        click.confirm(f"Cancel training {id_} of {submission.owner}?", abort=True)
    for order in orders:
        with site.audit.noted(f"freetrain cancel {id_}", order):
            _perform(site.slurm, order, submission)
    site.nudge()
    click.echo(f"Training {id_} of {submission.owner} is cancelled; what runs of it ends now.")


def cancel_orders(submission: Submission, snapshot: Snapshot, config: Config, launcher: Launcher) -> list[Command]:
    """Commands to Slurm that cancel a training."""
    fragments = tuple(
        Fragment(job.id, trainer, "", FragmentState.RUNNING, snapshot.time_s, 0.0)
        for job, trainer in jobs_of_trainers(snapshot, config.slurm.queue, launcher)
        if not job.state.is_final and trainer == submission.id
    )
    return [order.command for order in launcher.end(replace(submission, fragments=fragments), "cancelled")]


def _perform(gateway: Gateway, order: Command, submission: Submission) -> None:
    try:
        gateway.perform_patiently(order, pauses_s=USERS_PAUSES_S)
    except SlurmRefusedError as error:
        # "Access/permission denied": the one refusal that another account would not get.
        if "denied" in error.what:
            error.hint = f"Only {submission.owner} and accounts that may steer the jobs of others may cancel it."
            error.exit_code = ExitCode.NOT_ALLOWED
        raise


@command("panic")
def panic_command(
    site: SiteContext, yes: bool = _YES, dry_run: bool = option("--dry-run", "Print the commands.")
) -> None:
    """Take everything back now and lend nothing more: no daemon is needed for it.

    The stop file is written, so that no daemon lends; tagged tasks that wait are held; running fragments are
    requeued and held (with lend.launcher = "submit" cancelled). Nothing without freetrain's tag is touched.

    This is for root and for accounts that may steer the jobs of others.
    """
    config, slurm = site.config, site.slurm
    stop_file = Path(config.state.stop_file)
    if dry_run:
        click.echo(f"touch {stop_file}")
        for command in panic_orders(slurm.snapshot(), config, launcher_of(config, slurm)):
            click.echo(shlex.join(command))
        return
    if not yes and sys.stdin.isatty():
        click.confirm("Take back all that freetrain has lent?", abort=True)
    # Before the audit, which may wait for a locked database
    problem = _write_stop_file(stop_file)
    with site.audit.noted("freetrain panic", result=f"{stop_file} is written"):
        orders = panic_orders(slurm.snapshot(), config, launcher_of(config, slurm))
        failed = [what for order in orders if (what := _take_back(slurm, order, site.audit))]
        if problem:
            failed.append(problem)
        else:
            click.echo(f"{stop_file} is written: remove it to lend again.")
        if failed:
            raise FreetrainError(f"not everything was done: {' '.join(failed)}", _how_to_close(config.slurm.queue))


def panic_orders(snapshot: Snapshot, config: Config, launcher: Launcher) -> Sequence[Command]:
    """Commands to Slurm, in order: the first let nothing start any more, the others end what runs."""
    queue = config.slurm.queue
    ours = jobs_of_trainers(snapshot, queue, launcher)
    running = find_strangers(ours)
    starting = [
        Fragment(job.id, trainer, "", FragmentState.ASKED, snapshot.time_s, 0.0)
        for job, trainer in ours
        if job.state.is_waiting and not job.is_held
    ]
    starting_jobs = {fragment.job for fragment in starting}
    stray = [
        task.id
        for submission in find_submissions(snapshot.jobs, queue).values()
        for task in submission.tasks
        if task.state.is_waiting and not task.is_held and task.id not in starting_jobs
    ]
    holds = [commands.hold(*stray)] if stray else []
    return [*holds, *(order.command for order in launcher.stop([*starting, *running], "panic"))]


def _how_to_close(queue: FragmentQueue) -> str:
    if queue.qos:
        return f"Let nothing start: sacctmgr -i modify qos {queue.qos} set GrpJobs=0"
    lines = (f"scontrol update PartitionName={name} State=DOWN" for name in queue.partitions)
    return f"Close the partition: {'; '.join(lines)}"


def _write_stop_file(path: Path) -> str:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"freetrain panic, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return ""


def _take_back(slurm: Gateway, order: Command, audit: AuditWriter) -> str:
    click.echo(shlex.join(order))
    try:
        with audit.noted("freetrain panic", order):
            slurm.perform(order)
    except SlurmError as error:
        return error.what
    return ""
