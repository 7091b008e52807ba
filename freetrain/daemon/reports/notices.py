"""Tells people by the site's commands what they have to hear of although nobody asks.

The site's admins hear by notify.command, owners of trainings by notify.owners_command.
"""

from __future__ import annotations

import logging
import re
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from freetrain.config import Config
from freetrain.daemon.reports.hook import run_hook
from freetrain.daemon.reports.letters import Letter, TemplateProblem, written
from freetrain.daemon.reports.news import Heard, Kind, News, heard_after, news_of
from freetrain.daemon.reports.status import LookStatus
from freetrain.lending.memory import Memory

log = logging.getLogger(__name__)

_MOST_LINES = 20
_MOST_OWNERS_AT_ONCE = 4
"""Commands that run at the same time for owners; the others wait for a later look."""
_SILENT_S = 300.0
"""A slurmctld that is started again is silent for a while, which nobody has to hear of."""
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
"""Names that may stand in a mail's header and in a command's environment."""


@dataclass(frozen=True, slots=True)
class _Hearer:
    """Who hears of what: each has a pace of its own."""

    kind: Kind
    owner: str


@dataclass(slots=True)
class _Waiting:
    """What one is to be told at the next time."""

    lines: list[str] = field(default_factory=list)
    left_out: int = 0

    def add(self, line: str) -> None:
        if len(self.lines) < _MOST_LINES:
            self.lines.append(line)
        else:
            self.left_out += 1


class Notices:
    """Runs each command at most once in ``notify.every`` for each kind, and owner; the rest comes with the next.

    They run beside the daemon, which never waits for them; that one fails is logged when it begins to.

    Args:
        config: the settings, which may be replaced.
        clock_s: running seconds.
    """

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock_s = clock_s
        self._heard: Heard | None = None
        self._outage_is_told = False
        self._waiting: dict[_Hearer, _Waiting] = {}
        self._told_s: dict[_Hearer, float] = {}
        self._running: dict[_Hearer, threading.Thread] = {}
        self._complaints = _Complaints()

    def looked(self, look: LookStatus, memory: Memory) -> None:
        """Slurm has answered; what was so when the daemon began is not news."""
        before = self._heard or heard_after(look)
        self._heard, self._outage_is_told = heard_after(look), False
        self._tell(news_of(look, memory, before, self.config.harm.limit))

    def silent(self, lasts_s: float, why: str) -> None:
        """Slurm has not answered for so long."""
        is_news = lasts_s >= _SILENT_S and not self._outage_is_told
        self._outage_is_told = self._outage_is_told or is_news
        what = f"Slurm has not answered for {lasts_s:.0f} s: {why}"
        self._tell([News(Kind.FAILURE, what)] if is_news else [])

    def _tell(self, news: Iterable[News]) -> None:
        for one in news:
            if _command(self.config, one.kind) and _can_be_told(one):
                self._waiting.setdefault(_Hearer(one.kind, one.owner), _Waiting()).add(one.what)
        every_s = self.config.notify.every
        self._told_s = {one: at_s for one, at_s in self._told_s.items() if self._clock_s() - at_s < every_s}
        self._running = {one: thread for one, thread in self._running.items() if thread.is_alive()}
        for hearer in list(self._waiting):
            if self._may_tell(hearer):
                self._start(hearer, self._waiting.pop(hearer))

    def _may_tell(self, hearer: _Hearer) -> bool:
        owners = sum(one.kind.is_for_owners for one in self._running)
        has_room = not hearer.kind.is_for_owners or owners < _MOST_OWNERS_AT_ONCE
        return has_room and hearer not in self._told_s and hearer not in self._running

    def _start(self, hearer: _Hearer, waiting: _Waiting) -> None:
        self._told_s[hearer] = self._clock_s()
        letter = Letter(
            hearer.kind, waiting.lines, waiting.left_out, hearer.owner, socket.gethostname(),
            self.config.slurm.partition,
        )  # fmt: skip
        arguments = (letter, self.config, self._complaints)
        name = f"notice of {hearer.kind}"
        thread = threading.Thread(target=_run, args=arguments, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # as where the unit's TasksMax is reached
            _complain(letter, self._complaints, str(error))
        else:
            self._running[hearer] = thread


class _Complaints:
    """Knows what was wrong at the last time, so that it is said when it begins."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def is_new(self, what: str, problem: str) -> bool:
        """Whether this is wrong now and was not before; nothing is wrong where the problem is empty."""
        was_known = what in self._known
        (self._known.add if problem else self._known.discard)(what)
        return bool(problem) and not was_known


def _can_be_told(one: News) -> bool:
    return not one.kind.is_for_owners or bool(_ACCOUNT.fullmatch(one.owner))


def _command(config: Config, kind: Kind) -> str:
    return config.notify.owners_command if kind.is_for_owners else config.notify.command


def _run(letter: Letter, config: Config, complaints: _Complaints) -> None:
    problem = run_hook(
        shlex.split(_command(config, letter.kind)), _text(letter, config, complaints), _variables(letter),
        config.notify.timeout,
    )  # fmt: skip
    _complain(letter, complaints, problem)


def _complain(letter: Letter, complaints: _Complaints, problem: str) -> None:
    setting = "notify.owners_command" if letter.kind.is_for_owners else "notify.command"
    if complaints.is_new(setting, problem):
        log.warning("%s did not tell of %s: %s", setting, letter.kind, problem)


def _text(letter: Letter, config: Config, complaints: _Complaints) -> str:
    """By the site's own template, or, where that cannot be used, by freetrain's."""
    directory = config.notify.templates
    try:
        text, problem = written(letter, directory), ""
    except TemplateProblem as error:
        text, problem = written(letter), str(error)
    if complaints.is_new(f"templates for {letter.kind}", problem):
        log.warning("notify.templates: %s; freetrain's own is used", problem)
    return text


def _variables(letter: Letter) -> dict[str, str]:
    return {
        "FREETRAIN_KIND": str(letter.kind),
        "FREETRAIN_HOST": letter.host,
        "FREETRAIN_PARTITION": letter.partition,
        "FREETRAIN_OWNER": letter.owner,
    }
