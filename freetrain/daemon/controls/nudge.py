"""Nudges: a permitted connection to the daemon's socket, or write to its wake file, makes it look at once."""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from freetrain.daemon.log_output import Problems
from freetrain.errors import ExitCode, FreetrainError

log = logging.getLogger(__name__)

SOCKET_NAME = "nudge"
# A sender waits so long for a place in the queue, and again for the answer: it may be slurmctld.
_PATIENCE_S = 0.5
_QUEUE = 64
# Nudges of one sender that come sooner are taken together, so that nobody makes the daemon look all the time.
_SITE_APART_S, _OWNER_APART_S = 0.5, 5.0
# After each connection, so that a flood of them leaves the processor to the daemon.
_BREATH_S = 0.001
_AFTER_ERROR_S = 0.1
_TAKEN, _REFUSED = b"taken", b"refused"
_CREDENTIALS = struct.Struct("3i")


def send_nudge(directory: Path) -> None:
    """Make the daemon that works in this directory look at the cluster now; takes about a second at most.

    Raises:
        FreetrainError: there is no daemon that listens, it does not answer, or this account may not nudge it.
    """
    path = directory / SOCKET_NAME
    try:
        answer = _ask(path)
    except BlockingIOError as error:
        raise FreetrainError(
            f"the daemon at {path} does not answer.",
            "It is busy, or stopped, and looks at its next poll at the latest: see 'systemctl status freetrain'.",
            ExitCode.TRY_AGAIN,
        ) from error
    except OSError as error:
        raise FreetrainError(
            f"no daemon listens at {path}: {error.strerror or error}.",
            "See 'systemctl status freetrain', or name the daemon's configuration with --config.",
            ExitCode.UNREACHABLE,
        ) from error
    if answer != _TAKEN:
        raise FreetrainError(
            "the daemon takes no nudge from this account.",
            "Only root, SlurmUser, the daemon's account and owners of trainings may nudge it.",
            ExitCode.NOT_ALLOWED,
        )


def _ask(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as out:
        # Not settimeout: with that, connecting to a full queue fails at once instead of waiting for a place.
        patience = struct.pack("ll", 0, int(_PATIENCE_S * 1e6))
        out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        out.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        out.connect(str(path))
        answer = out.recv(64)
    if not answer:
        # It was ended in between
        raise BlockingIOError
    return answer


class Senders:
    """Accounts that may nudge: root, the daemon's own, the site's (as SlurmUser), and owners of trainers."""

    def __init__(self, *site: str) -> None:
        self._uids: dict[str, int] = {}
        self._site = frozenset({0, os.geteuid(), *self._uids_of(site)})
        self._owners: frozenset[int] = frozenset()

    def admit(self, owners: Iterable[str]) -> None:
        """Take these for the owners of trainers from now on."""
        self._owners = self._uids_of(owners)

    def apart_s(self, uid: int) -> float | None:
        """Least seconds between two nudges of this user; None: they may not nudge."""
        if uid in self._site:
            return _SITE_APART_S
        return _OWNER_APART_S if uid in self._owners else None

    def _uids_of(self, names: Iterable[str]) -> frozenset[int]:
        found = set()
        for name in names:
            # Asked for once each, since the answer may come from a directory server. An account that is not known
            # here cannot send.
            with contextlib.suppress(KeyError):
                if name not in self._uids:
                    self._uids[name] = pwd.getpwnam(name).pw_uid
                found.add(self._uids[name])
        return frozenset(found)


class NudgeListener:
    """Calls back for each nudge of an account that may, from a thread of its own.

    The kernel names the sender. Nothing is ever read from a connection, and it is closed at once, so that
    nobody can hold up the others, whatever they send.
    """

    def __init__(self, directory: Path, on_nudge: Callable[[], None], senders: Senders) -> None:
        self._path = directory / SOCKET_NAME
        self._on_nudge = on_nudge
        self._senders = senders
        self._last_s: dict[int, float] = {}
        self._due_s: dict[int, float] = {}
        self._closed = False
        self._problems = Problems()
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._path))
        # Anybody may ask, and gets an answer: the kernel says who it is.
        self._path.chmod(0o666)
        self._socket.listen(_QUEUE)
        threading.Thread(target=self._listen, name="nudges", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._closed = True
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        while not self._closed:
            try:
                # Until the next nudge is due; for ever, if none waits.
                wait_s = max(0.001, min(self._due_s.values()) - time.monotonic()) if self._due_s else None
                self._socket.settimeout(wait_s)
                connection, _ = self._socket.accept()
                with connection:
                    self._answer(connection)
                time.sleep(_BREATH_S)
            except TimeoutError:
                pass
            except Exception as error:
                # Too many open files, say: that passes, and this thread must still be there then.
                self._complain(error)
            self._nudge_what_is_due()

    def _complain(self, error: Exception) -> None:
        if self._closed:
            return
        if self._problems.is_new("nudges", str(error)):
            log.warning("nudges cannot be taken just now: %s", error)
        time.sleep(_AFTER_ERROR_S)

    def _answer(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        _, user, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        apart_s = self._senders.apart_s(user)
        if apart_s is not None:
            now_s = time.monotonic()
            self._due_s.setdefault(user, max(now_s, self._last_s.get(user, 0.0) + apart_s))
        # A sender need not wait for the answer.
        with contextlib.suppress(OSError):
            connection.send(_REFUSED if apart_s is None else _TAKEN)

    def _nudge_what_is_due(self) -> None:
        now_s = time.monotonic()
        due = [user for user, due_s in self._due_s.items() if due_s <= now_s]
        for user in due:
            del self._due_s[user]
            self._last_s[user] = now_s
        if due:
            self._on_nudge()


WAKE_NAME = "wake"
_MODE = 0o620
_LARGEST_BYTES = 1 << 16


class WakeFile:
    """The wake file, watched for writes. It is made where it is missing; its owner and mode are the site's."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / WAKE_NAME
        # Created without any right and then changed: the mode of open() is cut by the umask.
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0)
            try:
                os.fchmod(file, _MODE)
            finally:
                os.close(file)
        self._seen = self._now()

    def has_changed(self) -> bool:
        """Whether somebody has written since the last time."""
        now = self._now()
        changed = now is not None and now != self._seen
        self._seen = now
        if changed and now is not None and now[1] > _LARGEST_BYTES:
            with contextlib.suppress(OSError):
                os.truncate(self._path, 0)
            self._seen = self._now()
        return changed

    def _now(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
