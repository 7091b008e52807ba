"""What the daemon's account may not do with files that it needs: its state, its metrics, Python."""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.admission.permissions import ENTER, WRITE, has_access_list, may
from freetrain.daemon.state_directory import LOCK_NAME
from freetrain.slurm.finding import Finding
from freetrain.slurm.pyslurm_process import closed_part
from freetrain.store.store import DAEMONS_STORE

_FILES = (LOCK_NAME, DAEMONS_STORE, f"{DAEMONS_STORE}-wal", f"{DAEMONS_STORE}-shm")


def closed_state(directory: Path, account: str) -> Finding | None:
    """That the account may not write the directory, or a file in it that somebody else has made, as root may have.

    None where it may, and where nobody can say from here: the directory is not there yet, the account is not known
    on this machine, or an access list says more.

    Args:
        directory: the daemon's.
        account: that of the daemon.
    """
    try:
        person = pwd.getpwnam(account)
        closed = [str(path) for path in _closed(directory, person.pw_uid, _groups(person))]
    except (OSError, KeyError):
        return None
    if not closed:
        return None
    what = f"The daemon's account, {account}, may not write {', '.join(closed)} (state.directory)."
    return Finding(what, shlex.join(["chown", account, *closed]))


def closed_textfile(config: Config, account: str) -> Finding | None:
    """That ``metrics.textfile`` lies in a directory that is not there, or that the account may not write.

    None where it may, and where nobody can say from here.
    """
    if not config.metrics.textfile:
        return None
    path = Path(config.metrics.textfile)
    directory = shlex.quote(str(path.parent))
    if not path.is_absolute():
        what, mend = "it depends on where the daemon is started from", '[metrics]\ntextfile = ""'
    elif not path.parent.is_dir():
        what, mend = f"there is no directory {path.parent}", f"install -d -o {account} {directory}"
    elif not _may_write(path.parent, account):
        what, mend = f"{account} may not write {path.parent}", f"setfacl -m u:{account}:rwx {directory}"
    else:
        return None
    return Finding(f"metrics.textfile: {what}, so no metrics are written.", mend, False)


def _may_write(directory: Path, account: str) -> bool:
    """Whether the account may, or nobody can say."""
    try:
        person = pwd.getpwnam(account)
        known = directory.stat()
        return has_access_list(directory) or may(WRITE | ENTER, known, person.pw_uid, _groups(person))
    except (OSError, KeyError):
        return True


def closed_python(config: Config, account: str) -> Finding | None:
    """That the account may not execute Python, which pyslurm's process needs; ``auto`` takes the commands then.

    None where it may, where pyslurm is not wanted or not installed, and where nobody can say from here.
    """
    backend = config.slurm.backend
    if config.lend.in_parts or backend == "cli" or (backend == "auto" and find_spec("pyslurm") is None):
        return None
    try:
        person = pwd.getpwnam(account)
        groups = _groups(person)
        closed = closed_part(Path(sys.executable), lambda part: may(ENTER, part.stat(), person.pw_uid, groups))
    except (OSError, KeyError):
        return None
    if closed is None:
        return None
    return Finding(
        f"slurm.backend: the daemon's account, {account}, may not execute {closed}, which pyslurm needs.",
        f"chmod o+x {shlex.quote(str(closed))}",
        backend == "pyslurm",
    )


def _groups(person: pwd.struct_passwd) -> list[int]:
    return os.getgrouplist(person.pw_name, person.pw_gid)


def _closed(directory: Path, user: int, groups: list[int]) -> Iterator[Path]:
    for path, wanted in ((directory, WRITE | ENTER), *((directory / name, WRITE) for name in _FILES)):
        if path.exists() and not has_access_list(path) and not may(wanted, path.stat(), user, groups):
            yield path
