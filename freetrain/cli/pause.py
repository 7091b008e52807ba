"""``freetrain pause`` lends nothing more, and takes nothing back; ``freetrain resume`` ends that.

With a training, ``freetrain resume`` lets it go on after failures that its owner has looked into.
"""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.noting import AuditWriter, who_am_i
from freetrain.cli.options import config_option, end_of, end_options
from freetrain.config import Config, load_config
from freetrain.config.sections import State
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.controls.pause import Pause, read_pause, stop_file_there, write_pause
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.state_directory import is_claimed
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.slurm import commands
from freetrain.slurm.comments import answer_in, ask_to_resume, asked_to_resume, says_paused
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.patience import USERS_PAUSES_S, perform_patiently
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.slurm.tags import WrongTag

_LONGEST_REASON = 200


@command("pause")
@config_option
@end_options
@click.option("--reason", default="", help="Why; everybody sees it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def pause_command(
    config_path: Path | None, until_s: float | None, for_s: float | None, reason: str, dry_run: bool
) -> None:
    """Lend nothing more, until a time, or until 'freetrain resume'.

    What is lent stays lent and gives way to the site's jobs as always; 'freetrain drain' takes nodes back. This is
    for accounts that may write the daemon's state directory: root, and the daemon's account.
    """
    directory = Path(load_config(config_path).config.state.directory)
    now_s = time.time()
    pause = Pause(
        by=who_am_i(), reason=reason[:_LONGEST_REASON], since_s=now_s, until_s=end_of(until_s, for_s, now_s)
    )
    if dry_run:
        click.echo(f"would lend nothing more: {pause.sentence}")
        return
    with AuditWriter(directory).noted("freetrain pause", result=pause.sentence):
        write_pause(directory, pause)
    click.echo(f"Nothing more is lent: {pause.sentence}.")
    tell_daemon(directory)


def end_pause(state: State, dry_run: bool) -> None:
    """Let the daemon lend again.

    Args:
        state: where it keeps what it knows.
        dry_run: only say so.
    """
    directory, stop_file = Path(state.directory), stop_file_there(state)
    stops = f" Nothing is lent while {stop_file} exists: remove it." if stop_file else ""
    if read_pause(directory, time.time()) is None:
        click.echo(f"Lending is not paused.{stops}")
        return
    if dry_run:
        click.echo("would end the pause")
        return
    with AuditWriter(directory).noted("freetrain resume"):
        write_pause(directory, None)
    click.echo(f"The pause has ended.{stops}" if stops else "Nodes are lent again.")
    tell_daemon(directory)


def tell_daemon(directory: Path) -> None:
    """Let it look at once; say so if there is none."""
    if is_claimed(directory):
        with suppress(FreetrainError):  # it looks soon in any case
            send_nudge(directory)
    else:
        click.echo(f"freetrain: no daemon works in {directory}: this counts from its next start on.", err=True)


_WHEN = "from the daemon's next look on"


@command("resume")
@config_option
@click.option("--dry-run", is_flag=True, help="Print what would be done.")
@click.argument("id_", metavar="ID", required=False)
def resume_command(config_path: Path | None, dry_run: bool, id_: str | None) -> None:
    """End the site's pause; or let the training ID, which was paused after failures, compete for nodes again.

    Without ID this is for root and the daemon's account: it ends what 'freetrain pause' began.

    With ID it asks for it in the job's comment, which only its owner may change, or an operator; the daemon takes
    it out again. A training that rests after a failure need not rest any longer.
    """
    config = load_config(config_path).config
    if id_ is None:
        end_pause(config.state, dry_run)
        return
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    submission = find_submissions(gateway.snapshot().jobs, config.slurm.queue).get(id_)
    if submission is None:
        raise InputError(f"There is no training {id_}.", "freetrain jobs lists them.")
    known = _known_state(config, id_)
    _check(submission, known)
    asking = commands.set_comment(submission.open_tasks, ask_to_resume(submission.comment, time.time()))
    if dry_run:
        click.echo(shlex.join(asking))
        return
    with AuditWriter(Path(config.state.directory)).noted(f"freetrain resume {id_}", asking):
        perform_patiently(gateway, asking, pauses_s=USERS_PAUSES_S)
    with suppress(FreetrainError):  # the daemon may be on another machine; it looks by itself
        send_nudge(Path(config.state.directory))
    click.echo(_what_is_so(submission, known))


def _known_state(config: Config, id_: str) -> TrainerState | None:
    """What the daemon published of it; None: unknown."""
    known = find_standing(config).trainers.get(id_)
    return next((state for state in TrainerState if known and state == known.state), None)


def _check(submission: Submission, known: TrainerState | None) -> None:
    """That there is something to resume, as far as can be seen from here."""
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
