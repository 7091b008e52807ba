"""Nudges: a datagram to the daemon's socket makes it look at once, for prologs and epilogs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from freetrain.errors import ExitCode, FreetrainError

SOCKET_NAME = "nudge"


def send_nudge(directory: Path) -> None:
    """Make the daemon that works in this directory look at the cluster now.

    Raises:
        FreetrainError: there is no daemon that listens, or one may not nudge it.
    """
    path = directory / SOCKET_NAME
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(b"nudge", str(path))
    except BlockingIOError:
        return  # it has been nudged enough
    except OSError as error:
        raise FreetrainError(
            f"no daemon listens at {path}: {error.strerror or error}.",
            "See 'systemctl status freetrain', or name the daemon's configuration with --config.",
            ExitCode.UNREACHABLE,
        ) from error


class NudgeListener:
    """Calls back for each nudge, from a thread of its own.

    Args:
        directory: the daemon's state directory.
        on_nudge: what to do.
    """

    def __init__(self, directory: Path, on_nudge: Callable[[], None]) -> None:
        self._path = directory / SOCKET_NAME
        self._on_nudge = on_nudge
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        # Prologs run as root or as SlurmUser, and a nudge costs no more than a poll.
        self._path.chmod(0o666)
        threading.Thread(target=self._listen, name="nudges", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while self._socket.recv(64):
                self._on_nudge()
