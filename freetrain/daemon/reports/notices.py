"""Notices, sent by the site's commands, of what people have to hear of although they do not ask.

The site's admins hear by notify.command, owners of trainings by notify.owners_command.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from importlib.resources import files
from pathlib import Path

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from freetrain.config import Config
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.background import do_beside
from freetrain.daemon.external_actions import Departure, Departures
from freetrain.daemon.log_output import Problems
from freetrain.daemon.reports.status import LookStatus, TrainerStatus
from freetrain.errors import FreetrainError
from freetrain.lending.memory import Memory
from freetrain.showing.words import printable
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import fold_nodes
from freetrain.store.ledger import Ledger
from freetrain.store.notice_book import Notice, NoticeBook

log = logging.getLogger(__name__)


class NewsKind(StrEnum):
    """Subject of a notice; each has its own pace."""

    HARM = "harm"
    """A job of the site's had to wait for fragments."""
    PAUSE = "pause"
    """Lending has stopped, or nothing more is lent."""
    FAILURE = "failure"
    """A training, a node or Slurm fails."""
    REGISTERED = "registered"
    """A training is known from now on; for its owner, as what follows."""
    FINISHED = "finished"
    """A training is complete, or has left Slurm while no daemon looked."""
    PAUSED = "paused"
    """A training failed too often; its owner must look."""
    LOSS = "loss"
    """Work of a filler's tasks was lost, since a freezer could not save it."""

    @property
    def is_for_owners(self) -> bool:
        """Whether owners of trainings hear of it, each of theirs; else the site's admins do."""
        return self in (NewsKind.REGISTERED, NewsKind.FINISHED, NewsKind.PAUSED, NewsKind.LOSS)


Noticed = Mapping[str, str]
"""Subject that somebody may have to hear of → its state; only a state that differs from the last is news."""

_LENDING, _TRAINING, _LOSS = "lending", "training ", "loss of "


def noticed_after(look: LookStatus, memory: Memory) -> Noticed:
    """Subjects with their states after this look."""
    return {
        _LENDING: "stopped" if look.stopped_by or look.paused_by else "goes on",
        **{f"{_TRAINING}{trainer.id}": trainer.state for trainer in look.trainers},
        **{f"{_LOSS}{trainer.id}": f"{trainer.lost_s:.0f}" for trainer in look.trainers if trainer.lost_s},
        **{f"node {lost.node}": lost.fragment for lost in memory.lost.all},
        **{_about(harm): "" for harm in memory.meter.harms},
    }


def _about(harm: Harm) -> str:
    return f"job {harm.job} started at {harm.started_s:.0f}"


def news_of(look: LookStatus, memory: Memory, before: Noticed, limit_s: float) -> Iterator[Notice]:
    """Notices of what is new since ``before``, a look of this or an earlier daemon; short delays are left out."""
    for harm in memory.meter.harms:
        if _about(harm) not in before and harm.delay_s > limit_s:
            because = f"because of fragments {', '.join(harm.fragments)}"
            yield Notice(NewsKind.HARM, "", f"job {harm.job} started {harm.delay_s:.0f} s later {because}")
    for wait in memory.blocked.new:
        what = f"would wait for the end of fragments on {fold_nodes(wait.nodes)}"
        yield Notice(NewsKind.HARM, "", f"job {wait.job} of {wait.partition} {what}")
    if (look.stopped_by or look.paused_by) and before.get(_LENDING) != "stopped":
        why = f"is lent: {look.stopped_by}" if look.stopped_by else f"more is lent: {look.paused_by}"
        yield Notice(NewsKind.PAUSE, "", f"nothing {why}")
    for lost in memory.lost.all:
        if before.get(f"node {lost.node}") == lost.fragment:
            continue
        why = f"since fragment {lost.fragment} could not be ended or cleared up after"
        yield Notice(NewsKind.FAILURE, "", f"node {lost.node} is out of service ({lost.state_text}) {why}")
    for node, owners in memory.suspects.new.items():
        what = f"programs of {', '.join(sorted(owners))}, which work on other nodes, failed at once on node {node}"
        yield Notice(NewsKind.FAILURE, "", what)
    for trainer in look.trainers:
        yield from _news_of_training(trainer, before)


def news_of_departure(departure: Departure) -> Iterator[Notice]:
    """Notice for the owner of a training that left Slurm unseen; none if it was cancelled, which they know."""
    if not departure.is_cancelled:
        how = f"has left Slurm while no daemon looked; its last fragment: {departure.end}"
        yield Notice(NewsKind.FINISHED, departure.owner, f"training {departure.id} {how}")


def _news_of_training(trainer: TrainerStatus, before: Noticed) -> Iterator[Notice]:
    """Notices of a training's change of state, or of its first one that is known, and of work that was lost."""
    name, owner, state = f"training {trainer.id}", trainer.owner, trainer.state
    known = before.get(f"{_TRAINING}{trainer.id}")
    if known is None and state in (TrainerState.ACTIVE, TrainerState.RESTING):
        yield Notice(NewsKind.REGISTERED, owner, f"{name} is registered: it may be lent idle nodes from now on")
    if state == TrainerState.COMPLETE and known not in (None, state):
        yield Notice(NewsKind.FINISHED, owner, f"{name} is complete")
    if state == TrainerState.PAUSED and known != state:
        yield Notice(NewsKind.FAILURE, "", f"{name} of {owner} is {trainer.note}")
        yield Notice(NewsKind.PAUSED, owner, f"{name} is {trainer.note}")
    if trainer.lost_s and before.get(f"{_LOSS}{trainer.id}") != f"{trainer.lost_s:.0f}":
        yield Notice(NewsKind.LOSS, owner, f"of filler {trainer.id} {trainer.fault}")


FOR_ADMINS, FOR_OWNERS = "for_admins.j2", "for_owners.j2"
_LONGEST_VALUE = 500
_LONGEST_TEMPLATE = 65_536


@dataclass(frozen=True, slots=True)
class Letter:
    """Names that a template can use.

    Attributes:
        lines: sentences without their ends.
        left_out: number of lines that are left out.
        owner: the user that gets it; empty: the site's admins.
    """

    kind: NewsKind
    lines: Sequence[str]
    left_out: int
    owner: str
    host: str
    partition: str


class TemplateProblem(Exception):  # noqa: N818 (it is reported, and is not a failure)
    """A template of the site's cannot be used; the sentence says why."""


def written(letter: Letter, directory: str = "") -> str:
    """The text of a letter, by freetrain's template, or by the site's own where ``directory`` has one.

    Whatever a template inserts is one line of printable characters: part of it is what users wrote, and none of it
    can begin another line of a mail's header.

    Raises:
        TemplateProblem: the site's own cannot be used.
    """
    name = FOR_OWNERS if letter.kind.is_for_owners else FOR_ADMINS
    own = Path(directory) / name
    try:
        if directory and own.exists():
            with own.open(encoding="utf-8") as file:
                return _filled(file.read(_LONGEST_TEMPLATE), letter)
    # A template may raise anything.
    except Exception as error:
        raise TemplateProblem(f"{own} cannot be used: {type(error).__name__}: {error}") from error
    return _filled(files(__package__).joinpath(name).read_text(encoding="utf-8"), letter)


def _filled(template: str, letter: Letter) -> str:
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False, finalize=lambda value: printable(str(value))[:_LONGEST_VALUE],
    )  # fmt: skip
    return environment.from_string(template).render({**asdict(letter), "kind": str(letter.kind)})


_MOST_COMPLAINT_BYTES = 300
# With these a site's command could tell systemd that the daemon is well.
_OUR_OWN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def run_hook(command: Sequence[str], text: str, variables: Mapping[str, str], timeout_s: float) -> str:
    """Run a command; when the time is up it is ended, with all that it has started.

    Returns:
        What went wrong, as the end of a sentence; empty: nothing.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _OUR_OWN} | dict(variables)
    # Not a pipe, which what the command leaves running would keep open.
    with tempfile.TemporaryFile() as stderr_file:
        try:
            running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr_file,
                env=environment, cwd="/", start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            return f"{command[0]} cannot be run: {getattr(error, 'strerror', None) or error}"
        try:
            running.communicate(text.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # Its whole session: a shell would leave what it has started.
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            return f"it was ended after {timeout_s:.0f} s"
        if running.returncode == 0:
            return ""
        stderr_file.seek(0)
        complaint = " ".join(stderr_file.read(_MOST_COMPLAINT_BYTES).decode(errors="replace").split())
        return f"it ended with status {running.returncode}" + (f": {complaint}" if complaint else "")


_MOST_LINES = 20
# A look may have news for many owners, and each command is a process; the others wait for a later look.
_MOST_OWNERS_AT_ONCE = 4
# A slurmctld that is started again is silent for a while, which nobody has to hear of.
_SILENT_S = 300.0
# A daemon that is ordered to stop does not wait longer for its commands.
_CLOSING_S = 5.0
# A command may begin late on a busy machine; beyond this, its thread has found no memory and never ends.
_BEGINNING_S = 60.0
# Other names must stand neither in a mail's header nor in a command's environment.
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


@dataclass(frozen=True, slots=True)
class _Hearer:
    """Receiver of notices of one kind, with a pace of its own; ``owner`` is empty for the site's admins."""

    kind: NewsKind
    owner: str


@dataclass(frozen=True, slots=True)
class _RunningCommand:
    """A command that runs, until this time of the monotonic clock at the latest."""

    has_ended: threading.Event
    until_s: float

    def is_over(self, now_s: float) -> bool:
        return self.has_ended.is_set() or now_s > self.until_s


class Notices:
    """Runs each command at most once in ``notify.every`` for each kind, and owner; the rest comes with the next.

    They run beside the daemon, which never waits for them; that one fails is logged when it begins to. What is
    news since the last look, of this daemon or of one before it, is noticed exactly once, and reported at least
    once: see :mod:`freetrain.store.notice_book`.
    """

    def __init__(
        self, config: Config, book: NoticeBook, ledger: Ledger, gateway: Gateway,
        clock_s: Callable[[], float] = time.monotonic, wall_s: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.config = config
        self._book = book
        self._clock_s = clock_s
        self._wall_s = wall_s
        self._noticed: Noticed | None = book.noticed()
        over = (TrainerState.COMPLETE, TrainerState.REFUSED)
        unfinished = [
            about.removeprefix(_TRAINING)
            for about, state in (self._noticed or {}).items()
            if about.startswith(_TRAINING) and state not in over
        ]
        self._departures = Departures(ledger, gateway, unfinished)
        self._outage_is_reported = False
        self._waiting: dict[_Hearer, list[Notice]] = {}
        self._told_s = {
            _Hearer(NewsKind(kind), owner): clock_s() - (wall_s() - at_s)
            for (kind, owner), at_s in book.last_told(wall_s() - config.notify.every).items()
        }
        self._running: dict[_Hearer, _RunningCommand] = {}
        self._problems = Problems()
        self._queue(book.untold())

    def looked(self, look: LookStatus, memory: Memory) -> None:
        """Notice the news of a look that Slurm answered; what was so when the first daemon began is not news."""
        self._outage_is_reported = False
        now = noticed_after(look, memory)
        before = now if self._noticed is None else self._noticed
        news = [*news_of(look, memory, before, self.config.harm.limit)]
        for departure in self._departures.look({trainer.id for trainer in look.trainers}, look.time_s):
            news += news_of_departure(departure)
        unsettled = [f"{_TRAINING}{id_}" for id_ in self._departures.unsettled]
        self._note(news, {**now, **{about: before[about] for about in unsettled}})
        self._tell()

    def silent(self, lasts_s: float, why: str) -> None:
        """Notice that no look has succeeded for so long."""
        is_news = lasts_s >= _SILENT_S and not self._outage_is_reported
        self._outage_is_reported = self._outage_is_reported or is_news
        if is_news:
            what = f"no look has succeeded for {lasts_s:.0f} s: {why}"
            self._note([Notice(NewsKind.FAILURE, "", what)], self._noticed)
        self._tell()

    def close(self) -> None:
        """Let commands that run come to their end, for a moment: they need not be run again then."""
        until_s = self._clock_s() + _CLOSING_S
        for running in self._running.values():
            running.has_ended.wait(max(0.0, until_s - self._clock_s()))

    def _note(self, news: Iterable[Notice], now: Noticed | None) -> None:
        to_tell = [
            notice
            for notice in news
            if _command(self.config, kind := NewsKind(notice.kind))
            and (not kind.is_for_owners or _ACCOUNT.fullmatch(notice.owner))
        ]
        self._queue(self._book.note(to_tell, self._noticed or {}, now or {}, self._wall_s()))
        self._noticed = now

    def _queue(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self._waiting.setdefault(_Hearer(NewsKind(notice.kind), notice.owner), []).append(notice)

    def _tell(self) -> None:
        every_s = self.config.notify.every
        self._told_s = {who: at_s for who, at_s in self._told_s.items() if self._clock_s() - at_s < every_s}
        self._running = {who: run for who, run in self._running.items() if not run.is_over(self._clock_s())}
        for hearer in list(self._waiting):
            owners = sum(running.kind.is_for_owners for running in self._running)
            has_room = not hearer.kind.is_for_owners or owners < _MOST_OWNERS_AT_ONCE
            # Without a command it waits until the site wants to hear of it again.
            is_heard = bool(_command(self.config, hearer.kind))
            if is_heard and has_room and hearer not in self._told_s and hearer not in self._running:
                self._start(hearer, self._waiting.pop(hearer))

    def _start(self, hearer: _Hearer, waiting: Sequence[Notice]) -> None:
        self._told_s[hearer] = self._clock_s()
        lines = [notice.what for notice in waiting[:_MOST_LINES]]
        letter = Letter(
            hearer.kind, lines, len(waiting) - len(lines), hearer.owner, socket.gethostname(),
            self.config.slurm.partition,
        )  # fmt: skip
        ids = [notice.id for notice in waiting]
        self._book.begin(ids)
        until_s = self._clock_s() + self.config.notify.timeout + _BEGINNING_S
        try:
            has_ended = do_beside(partial(self._deliver, letter, ids, self.config))
        except RuntimeError as error:
            # For example where the unit's TasksMax is reached.
            self._complain(letter, str(error))
            self._book.mark_delivered(ids, self._wall_s())
        else:
            self._running[hearer] = _RunningCommand(has_ended, until_s)

    def _deliver(self, letter: Letter, ids: Sequence[int], config: Config) -> None:
        """Run the site's command, in a thread of its own."""
        command = shlex.split(_command(config, letter.kind))
        text = self._text(letter, config.notify.templates)
        names = ("kind", "host", "partition", "owner")
        variables = {f"FREETRAIN_{name.upper()}": str(getattr(letter, name)) for name in names}
        self._complain(letter, run_hook(command, text, variables, config.notify.timeout))
        try:
            self._book.mark_delivered(ids, self._wall_s())
        # There an error ends nothing.
        except FreetrainError as error:
            log.error("%s", error.what)

    def _complain(self, letter: Letter, problem: str) -> None:
        setting = "notify.owners_command" if letter.kind.is_for_owners else "notify.command"
        if self._problems.is_new(setting, bool(problem)):
            log.warning("%s did not tell of %s: %s", setting, letter.kind, problem)

    def _text(self, letter: Letter, directory: str) -> str:
        """Text of a letter, by the site's own template, or, where that cannot be used, by freetrain's."""
        try:
            text, problem = written(letter, directory), ""
        except TemplateProblem as error:
            text, problem = written(letter), str(error)
        if self._problems.is_new(f"templates for {letter.kind}", bool(problem)):
            log.warning("notify.templates: %s; freetrain's own is used", problem)
        return text


def _command(config: Config, kind: NewsKind) -> str:
    return config.notify.owners_command if kind.is_for_owners else config.notify.command
