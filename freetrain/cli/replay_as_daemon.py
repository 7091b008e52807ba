"""The replay as the daemon would have gone, where that is long in a process of its own, beside the other one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from freetrain.cli.replay_options import ReplayOptions, daemon_setup, daemons_place, on_machine
from freetrain.errors import FreetrainError
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.logs import SiteLog
from freetrain.replay.study import replay_as_daemon
from freetrain.replay.trainers import find_trainers

Progress = Callable[[float], None]
Waiting = Callable[[Progress], ReplayRecord]
"""Waits for a replay, and takes what is to be called with the log's time meanwhile."""

MANY_HOLES = 20_000
"""A log with fewer is replayed sooner than another process has started."""
# They take about a minute.
_MANY_LOOKS = 20_000
_BETWEEN_LOOKS_S = 60.0
"""So often it looks while nothing happens."""
_BETWEEN_NEWS_S = 0.2


@contextmanager
def begun(options: ReplayOptions, log: SiteLog, in_parts: bool = False) -> Iterator[Waiting | None]:
    """A replay as the daemon would have gone, to wait for; a long one goes on meanwhile. None: nobody asks."""
    holes = log.places.holes if in_parts and log.places is not None else log.holes
    if daemon_setup(options) is None:
        yield None
    elif len(holes) < MANY_HOLES:
        yield partial(_replay, options, log, in_parts)
    else:
        with ParallelReplay(options, log, in_parts) as beside:
            yield beside.wait


def is_long(log: SiteLog) -> bool:
    """Whether a replay as the daemon may take longer than an estimate."""
    looks = log.holes.duration_s / _BETWEEN_LOOKS_S + len(log.holes)
    return log.logged is not None and looks >= _MANY_LOOKS


def daemons_record(options: ReplayOptions, log: SiteLog) -> ReplayRecord:
    """A replay as the daemon would have gone, in this process."""
    return _replay(options, log, False, lambda at_s: None)


class ParallelReplay:
    """A replay as the daemon in a process of its own, which ends with this one."""

    def __init__(self, options: ReplayOptions, log: SiteLog, in_parts: bool = False) -> None:
        context = get_context("spawn")
        self._news, self._theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(self._theirs, options, log, in_parts), daemon=True)

    def __enter__(self) -> Self:
        """Start the process."""
        self._process.start()
        # With this end open here, too, recv() would wait for ever when the process dies.
        self._theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()

    def wait(self, progress: Progress) -> ReplayRecord:
        """Wait for its answer.

        Raises:
            FreetrainError: it ended without one, as where memory did not suffice.
        """
        try:
            self._news.send("somebody listens")
            while isinstance(answer := self._news.recv(), float):
                progress(answer)
        except (EOFError, OSError):
            self._process.join()
            raise FreetrainError(
                f"The replay as the daemon broke off (its process ended with {self._process.exitcode}).",
                "Where memory is short, choose a part of the log with --from and --until; --as ideal needs less.",
            ) from None
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, ReplayRecord)
        return answer


def _work(news: Connection, options: ReplayOptions, log: SiteLog, in_parts: bool = False) -> None:
    """What the other process does: it sends what comes of it, and the log's time before where somebody listens."""
    # Ctrl-C is meant for the command, which ends this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sent_s = time.monotonic()

    def tell(at_s: float) -> None:
        nonlocal sent_s
        if time.monotonic() - sent_s >= _BETWEEN_NEWS_S and news.poll():
            sent_s = time.monotonic()
            news.send(at_s)

    try:
        answer: ReplayRecord | Exception = _replay(options, log, in_parts, tell)
    except Exception as error:
        answer = error
    # The command was killed: nobody listens any more
    with suppress(BrokenPipeError):
        news.send(answer)


def _replay(options: ReplayOptions, log: SiteLog, in_parts: bool, progress: Progress) -> ReplayRecord:
    how = daemon_setup(options, in_parts)
    assert how is not None
    goal = on_machine(how.goal, options, daemons_place(options), log.holes.node_names)
    how, trainers = replace(how, goal=goal), find_trainers(options.trainers_source)
    setup = ReplaySetup(trainers, goal, time.perf_counter, options.costs, goal.links.topology)
    return replay_as_daemon(log, setup, how, progress)
