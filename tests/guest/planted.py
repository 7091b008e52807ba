"""Functions as a guest meets them: good ones, and such as hang, die and disturb."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Clock = Callable[[], float]


def echo(value: object, *, left_s: Clock) -> object:
    return value


def pid(*, left_s: Clock) -> int:
    return os.getpid()


def time_left(*, left_s: Clock) -> float:
    return left_s()


def sleep_for_ever(*, left_s: Clock) -> None:
    while True:
        time.sleep(3600.0)


def keep_the_interpreter(*, left_s: Clock) -> int:
    """One step of C that takes hours and lets no other thread run."""
    return sum(range(10**18))


def stop(*, left_s: Clock) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def exit_with(code: int, *, left_s: Clock) -> None:
    os._exit(code)


def kill(number: int, *, left_s: Clock) -> None:
    os.kill(os.getpid(), number)


def complain_and_exit(*, left_s: Clock) -> None:
    sys.stderr.write("out of licences\n")
    sys.stderr.flush()
    os._exit(1)


def hang_up(*, left_s: Clock) -> None:
    """Close all that is open, and live on."""
    os.closerange(3, 1000)
    time.sleep(3600.0)


def fail(*, left_s: Clock) -> None:
    raise RuntimeError("licence of the moon expired")


def answer_what_cannot_be_sent(*, left_s: Clock) -> object:
    return lambda: None


class Unreadable:
    """Can be sent, but not read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))


def answer_what_cannot_be_read(*, left_s: Clock) -> object:
    return Unreadable()


def print_rubbish(*, left_s: Clock) -> str:
    print("rubbish", flush=True)
    os.write(1, b"rubbish")
    return f"standard input says {sys.stdin.read()!r}"


def open_files(*, left_s: Clock) -> list[str]:
    return [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


def take_memory(size_bytes: int, *, left_s: Clock) -> int:
    return len(bytearray(size_bytes))


def order_of_a_set(*, left_s: Clock) -> list[str]:
    return list({f"name{number}" for number in range(100)})


def send_itself(number: int, *, left_s: Clock) -> str:
    os.kill(os.getpid(), number)
    return "goes on"


def say_pid_and_hang(path: str, *, left_s: Clock) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(3600.0)
