"""Work beside a look, which the look does not wait for."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable


def do_beside(work: Callable[[], object]) -> threading.Event:
    """Do this in a thread of its own, and return the event that is set when it has ended.

    A thread that finds no memory to begin with never sets it.

    Raises:
        RuntimeError: this machine cannot start a thread.
    """
    has_ended = threading.Event()

    def work_to_the_end() -> None:
        try:
            work()
        finally:
            has_ended.set()

    # Not threading.Thread, whose start() waits for ever for a thread that finds no memory to begin with.
    _thread.start_new_thread(work_to_the_end, ())
    return has_ended
