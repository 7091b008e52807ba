"""Whether the daemon's account may write where it keeps what it knows."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from pathlib import Path

from freetrain.daemon.admission.permissions import ENTER, WRITE, has_access_list, may
from freetrain.daemon.state_directory import LOCK_NAME
from freetrain.slurm.finding import Finding
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
        groups = os.getgrouplist(person.pw_name, person.pw_gid)
        closed = [str(path) for path in _closed(directory, person.pw_uid, groups)]
    except (OSError, KeyError):
        return None
    if not closed:
        return None
    what = f"The daemon's account, {account}, may not write {', '.join(closed)} (state.directory)."
    return Finding(what, shlex.join(["chown", account, *closed]))


def _closed(directory: Path, user: int, groups: list[int]) -> Iterator[Path]:
    for path, wanted in ((directory, WRITE | ENTER), *((directory / name, WRITE) for name in _FILES)):
        if path.exists() and not has_access_list(path) and not may(wanted, path.stat(), user, groups):
            yield path
