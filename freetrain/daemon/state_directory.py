"""The daemon's directory: local, writable, one daemon's only; everybody may enter it, few may read the database.

What everybody may use is made so where it is made: the status file and the nudge socket. A file that others
read is replaced as a whole.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from freetrain.errors import ExitCode, FreetrainError, StateError, explained

_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p", "pvfs", "orangefs", "fuse.")
LOCK_NAME = "daemon.lock"
"""The file that a daemon at work has locked."""
READ_HINT = "Ask as root or as the daemon's account."
CHANGE_HINT = "Do it as root or as the daemon's account, on its machine; --config names its configuration."
"""Hints where the files by which people steer the daemon may not be read, or not be changed."""
_HINT = "Set state.directory in the configuration to a directory on a local disk that the daemon's account owns."


def claim(directory: Path, mounts: str | None = None) -> IO[str]:
    """Make the directory this daemon's own, as long as the result is open.

    Raises:
        StateError: it cannot be written, or is on a network file system.
        FreetrainError: another daemon has it.
    """
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            # Everybody may enter it, whatever the umask: the status file and the nudge socket are for all.
            directory.chmod(0o755)
        if kind := network_file_system(directory, mounts):
            raise StateError(
                f"{directory} is on a network file system ({kind}), where locks and SQLite fail.", _HINT
            )
        # Anybody who may open the file may hold the lock: nobody but the owner may, whatever the umask.
        lock = os.fdopen(os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        os.fchmod(lock.fileno(), 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            with lock:
                raise _already_locked(lock, directory) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
    except OSError as error:
        raise StateError(f"The daemon's directory {directory} cannot be used: {error.strerror}.", _HINT) from error
    return lock


def _already_locked(lock: IO[str], directory: Path) -> FreetrainError:
    daemon, holders = lock.read().strip(), _holders(lock)
    if not holders or daemon in holders:
        what, hint = f"Another daemon (process {daemon or 'unknown'}) works in {directory}.", "Stop it first."
    else:
        who = f"Process {', '.join(holders)}, which is not the daemon that worked there last,"
        what = f"{who} has locked {directory / LOCK_NAME}."
        hint = f"See what it is with 'ps -fp {','.join(holders)}', and end it if it is no daemon."
    return FreetrainError(what, hint, ExitCode.TRY_AGAIN)


def _holders(lock: IO[str]) -> list[str]:
    status = os.fstat(lock.fileno())
    which = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return []
    return [fields[4] for fields in lines if len(fields) > 5 and fields[5] == which and fields[1] == "FLOCK"]


def make_private(path: Path) -> None:
    """Let nobody but the owner and the group read or write a file, whatever the umask; it is created if need be.

    Raises:
        StateError: it cannot be created or changed.
    """
    with explained(f"{path} cannot be used", _HINT, StateError):
        # SQLite gives the files that it makes beside a database the database's permissions.
        path.touch(0o640)
        path.chmod(path.stat().st_mode & 0o770)


def is_claimed(directory: Path) -> bool:
    """Whether a daemon works in the directory, as far as this account may see."""
    try:
        with (directory / LOCK_NAME).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def network_file_system(path: Path, mounts: str | None = None) -> str:
    """Type of the network file system that holds a path, or will, by ``mountinfo``'s text; empty: it is local."""
    kind = file_system_of(path, mounts if mounts is not None else Path("/proc/self/mountinfo").read_text())
    return kind if kind.startswith(_NETWORK) else ""


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the file system that holds a path, by the text of ``mountinfo``."""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")
        if path.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def replace_file(path: Path, content: bytes, permissions: int) -> None:
    """Write a file such that nobody ever sees a part of it, with these permissions whatever the umask."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        os.fchmod(file.fileno(), permissions)
        file.write(content)
    new.replace(path)
