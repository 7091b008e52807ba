"""Tells people by the site's command, notify.command, what they have to hear of although nobody asks."""

from __future__ import annotations

import logging
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from freetrain.config import Config
from freetrain.daemon.reports.hook import run_hook
from freetrain.daemon.reports.news import Heard, Kind, News, heard_after, news_of
from freetrain.daemon.reports.status import LookStatus
from freetrain.lending.judge import Memory

log = logging.getLogger(__name__)

_MOST_LINES = 20
_SILENT_S = 300.0
"""A slurmctld that is started again is silent for a while, which nobody has to hear of."""


@dataclass(slots=True)
class _Waiting:
    """What is to be told of one kind at the next time."""

    lines: list[str] = field(default_factory=list)
    left_out: int = 0

    def add(self, line: str) -> None:
        if len(self.lines) < _MOST_LINES:
            self.lines.append(line)
        else:
            self.left_out += 1

    def text(self) -> str:
        more = [f"and {self.left_out} more"] if self.left_out else []
        return "\n".join([*self.lines, *more]) + "\n"


class Notices:
    """Runs the command at most once in ``notify.every`` for each kind; what happens meanwhile comes with the next.

    It runs beside the daemon, which never waits for it; that it fails is logged, and nothing more.

    Args:
        config: the settings, which may be replaced.
        clock_s: running seconds.
    """

    def __init__(self, config: Config, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock_s = clock_s
        self._heard: Heard | None = None
        self._outage_is_told = False
        self._waiting: dict[Kind, _Waiting] = {}
        self._told_s: dict[Kind, float] = {}
        self._running: dict[Kind, threading.Thread] = {}

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
            if self.config.notify.command:
                self._waiting.setdefault(one.kind, _Waiting()).add(one.what)
        for kind in list(self._waiting):
            if self._may_tell(kind):
                self._start(kind, self._waiting.pop(kind).text())

    def _may_tell(self, kind: Kind) -> bool:
        running = self._running.get(kind)
        is_time = self._clock_s() - self._told_s.get(kind, -float("inf")) >= self.config.notify.every
        return is_time and not (running and running.is_alive())

    def _start(self, kind: Kind, text: str) -> None:
        self._told_s[kind] = self._clock_s()
        arguments = (kind, text, self.config)
        self._running[kind] = threading.Thread(target=_run, args=arguments, name=f"notice of {kind}", daemon=True)
        self._running[kind].start()


def _run(kind: Kind, text: str, config: Config) -> None:
    notify = config.notify
    variables = {
        "FREETRAIN_KIND": str(kind),
        "FREETRAIN_HOST": socket.gethostname(),
        "FREETRAIN_PARTITION": config.slurm.partition,
    }
    problem = run_hook(shlex.split(notify.command), text, variables, notify.timeout)
    if problem:
        log.warning("notify.command did not tell of %s: %s", kind, problem)
