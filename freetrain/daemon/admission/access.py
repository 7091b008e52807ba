"""Rights of accounts to files: the daemon's to all that it needs, slurmctld's to the wake file.

Nothing is found where the answer is unknown here: a file is not there yet, the account is not known on this
machine, or an access list says more than owner, group and mode do.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from importlib.util import find_spec
from math import inf
from pathlib import Path

from freetrain.config import Config
from freetrain.daemon.controls.nudge import WAKE_NAME
from freetrain.daemon.state_directory import LOCK_NAME
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.finding import Finding, error, error_if, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.store import DAEMONS_STORE

log = logging.getLogger(__name__)

WRITE, ENTER = 0o2, 0o1
_FILES = (LOCK_NAME, DAEMONS_STORE, f"{DAEMONS_STORE}-wal", f"{DAEMONS_STORE}-shm")
_COMMENT = re.compile(r"--\[\[.*?\]\]|--[^\n]*", re.DOTALL)
# docs/admins/plug-in.md calls the plug-in so where the site has a script of its own.
_CHAINED = "freetrain.lua"
_ASKED_EVERY_S = 60.0


def may(wanted: int, file: os.stat_result, user: int, groups: Collection[int]) -> bool:
    """Whether a user with these groups may do this with a file: ``WRITE`` or ``ENTER``, or both."""
    if user == 0:
        return True
    # As in the kernel the first class that fits decides, even where a later one would allow more.
    # Access lists are looked at before: where there is one, mode bits do not decide.
    shift = 6 if user == file.st_uid else 3 if file.st_gid in groups else 0
    return file.st_mode & wanted << shift == wanted << shift


class Account:
    """An account of this machine, by its name; KeyError: it is not known here."""

    def __init__(self, name: str) -> None:
        person = pwd.getpwnam(name)
        self.name, self.user, self.group = person.pw_name, person.pw_uid, person.pw_gid
        self.groups = os.getgrouplist(self.name, self.group)

    def may(self, wanted: int, path: Path) -> bool:
        """Whether it may do this by owner, group and mode; OSError: unknown."""
        return may(wanted, path.stat(), self.user, self.groups)


def _has_access_list(path: Path) -> bool:
    return "system.posix_acl_access" in os.listxattr(path)


def closed_state(directory: Path, account: str) -> Finding | None:
    """Finding that the account may not write the directory, or a file in it that another user, as root, made."""
    closed: list[str] = []
    with suppress(OSError, KeyError):
        daemons = Account(account)
        wanted = {directory: WRITE | ENTER, **{directory / name: WRITE for name in _FILES}}
        closed = [
            str(path)
            for path, rights in wanted.items()
            if path.exists() and not _has_access_list(path) and not daemons.may(rights, path)
        ]
    if not closed:
        return None
    what = f"The daemon's account, {account}, may not write {', '.join(closed)} (state.directory)."
    return error(what, shlex.join(["chown", account, *closed]))


def closed_textfile(config: Config, account: str) -> Finding | None:
    """Finding that ``metrics.textfile`` lies in a directory that is missing, or that the account may not write."""
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
    return warning(f"metrics.textfile: {what}, so no metrics are written.", mend)


def _may_write(directory: Path, account: str) -> bool:
    with suppress(OSError, KeyError):
        return _has_access_list(directory) or Account(account).may(WRITE | ENTER, directory)
    return True


def closed_python(config: Config, account: str) -> Finding | None:
    """Finding that the account may not execute Python, which pyslurm needs; ``auto`` takes the commands then."""
    backend = config.slurm.backend
    if config.lend.in_parts or backend == "cli" or (backend == "auto" and find_spec("pyslurm") is None):
        return None
    closed = None
    with suppress(OSError, KeyError):
        daemons = Account(account)
        closed = closed_part(Path(sys.executable), lambda part: daemons.may(ENTER, part))
    if closed is None:
        return None
    return error_if(
        backend == "pyslurm",
        f"slurm.backend: the daemon's account, {account}, may not execute {closed}, which pyslurm needs.",
        f"chmod o+x {shlex.quote(str(closed))}",
    )


def closed_part(program: Path, may_execute: Callable[[Path], bool]) -> Path | None:
    """The first folder on the way to a program, or the program, that may not be executed; None: all may be.

    The Python of a virtual environment is a link, often into the home of its maker: both ways are tried.
    """
    ways = (program, program.resolve())
    parts = [part for way in ways for part in (*reversed(way.parents), way)]
    return next((part for part in parts if not may_execute(part)), None)


class WakeCheck:
    """Finds out now and then, for a daemon at work, whether slurmctld can wake it, and logs it once."""

    def __init__(self, directory: Path, gateway: Gateway, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._gateway = gateway
        self._clock_s = clock_s
        self._asked_s = -inf
        self._problem = ""

    def problem(self) -> str:
        """Reason why slurmctld cannot wake the daemon, with what mends that; empty: none is known."""
        if self._clock_s() - self._asked_s < _ASKED_EVERY_S:
            return self._problem
        self._asked_s, before = self._clock_s(), self._problem
        with suppress(SlurmError):
            found = closed_wake_file(self._directory, self._gateway.site(inf, 0).settings)
            self._problem = f"{found.what} Mend it with: {'; '.join(found.mend.splitlines())}" if found else ""
        if self._problem and self._problem != before:
            log.warning("%s", self._problem)
        return self._problem


def closed_wake_file(directory: Path, settings: SlurmSettings) -> Finding | None:
    """Finding that slurmctld's account may not write the wake file although a plug-in of Slurm's names it.

    None also where the plug-in cannot be read.
    """
    path = directory / WAKE_NAME
    plugin = _plugin_naming(path, settings)
    if plugin is None:
        return None
    mends: list[str] = []
    with suppress(OSError, KeyError):
        account = Account(settings.slurm_user)
        if not _has_access_list(path) and not _has_access_list(directory):
            mends = [*_mending(path, account)]
    if not mends:
        return None
    what = f"{plugin} is to wake the daemon, but slurmctld's account, {account.name}, cannot write {path}."
    return warning(what, "\n".join(mends))


def _plugin_naming(path: Path, settings: SlurmSettings) -> str | None:
    plugins = {
        "JobCompType=jobcomp/lua": ("jobcomp.lua", settings.job_comp_type == "jobcomp/lua"),
        "JobSubmitPlugins=lua": ("job_submit.lua", "lua" in settings.job_submit_plugins),
    }
    folder = Path(settings.conf_file).parent
    for plugin, (script, is_used) in plugins.items():
        if is_used and any(str(path) in _code(folder / name) for name in (script, _CHAINED)):
            return plugin
    return None


def _code(script: Path) -> str:
    """Text of a script without its comments; empty: it cannot be read."""
    try:
        return _COMMENT.sub("", script.read_text(errors="replace"))
    except OSError:
        return ""


def _mending(path: Path, account: Account) -> Iterator[str]:
    if not account.may(ENTER, path.parent):
        yield f"chmod a+x {path.parent}"
    file = path.stat()
    if account.may(WRITE, path):
        return
    if file.st_uid == account.user:
        yield f"chmod u+w {path}"
        return
    if file.st_gid not in account.groups:
        yield f"chgrp {grp.getgrgid(account.group).gr_name} {path}"
    if not file.st_mode & 0o020:
        yield f"chmod g+w {path}"
