"""The guest's side: a process that calls the functions it is asked for, one after the other, for its host."""

from __future__ import annotations

import fcntl
import importlib
import os
import pickle
import resource
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from freetrain.guest.channel import Channel, QuestionEnd

_FOR_THE_HOST = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ending a service and Ctrl-C mean the host, which ends its guest itself."""

GuestQuestion = tuple[str, tuple[Any, ...], float]
"""Function, arguments, and until when it may work, by ``time.monotonic``, which all processes share."""


def main(lifeline: int, imports: Sequence[str], memory_bytes: int | None, niceness: int) -> None:
    """Say that all is ready, then answer until the host closes the channel, or ends, and with it the lifeline."""
    # Before all else, as a host may die while this process starts: the kernel sends SIGIO when the pipe is closed,
    # which ends a process that does not handle it, even one that hangs and would never read the channel's end.
    # PR_SET_PDEATHSIG would not do: it sends its signal at the end of the thread that started the process.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    os.nice(niceness)
    for number in _FOR_THE_HOST:
        signal.signal(number, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=os.dup(0)))
    # What solvers print to or read from the standard streams must not disturb the channel.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    _limit(memory_bytes)
    # The host is gone, or wants nothing any more: there is no reader for an error.
    with suppress(EOFError, ConnectionError):
        channel.send(_outcome(lambda: _import_all(imports)))
        while True:
            question: GuestQuestion = pickle.loads(channel.receive())
            channel.send(_outcome(lambda question=question: _call(*question)))  # type: ignore[misc]


def _limit(memory_bytes: int | None) -> None:
    # A solver that crashes with a large model would leave gigabytes behind.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or memory_bytes < most:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _import_all(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


def _call(path: str, arguments: tuple[Any, ...], until_s: float) -> object:
    module, _, name = path.partition(":")
    function = getattr(importlib.import_module(module), name)
    return function(*arguments, left_s=lambda: until_s - time.monotonic())


def _outcome(call: Callable[[], object]) -> bytes:
    try:
        # Pickled within the try: an answer that cannot be sent is the function's failure, not the guest's.
        return pickle.dumps((QuestionEnd.ANSWERED, call()))
    except Exception as error:
        return pickle.dumps((QuestionEnd.RAISED, f"{type(error).__name__}: {error}"))
