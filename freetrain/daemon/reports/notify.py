"""What systemd hears: ready, alive, reloading, stopping, and one line on how it goes."""

from __future__ import annotations

import contextlib
import os
import socket
import time


def notify(**state: str) -> None:
    """Send states such as ``READY="1"`` or ``STATUS="…"``; without systemd nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    message = "\n".join(f"{name}={value}" for name, value in state.items())
    # The leading @ stands for the NUL byte of an abstract address.
    where = f"\0{address[1:]}" if address.startswith("@") else address
    # A supervisor that does not listen must not stop the daemon.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(message.encode(), where)


def starting(doing: str, at_most_s: float) -> None:
    """Say what is done before the daemon is ready, so that it is waited for.

    Args:
        doing: for the status line.
        at_most_s: when nothing more was heard for so long, and TimeoutStartSec is over, systemd ends the daemon.
    """
    notify(EXTEND_TIMEOUT_USEC=str(round(at_most_s * 1e6)), STATUS=doing)


def monotonic_usec() -> str:
    """The time that a RELOADING message must carry."""
    return str(time.monotonic_ns() // 1000)
