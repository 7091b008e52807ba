"""Whether slurmctld may write the wake file, where one of its plug-ins is to."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

from freetrain.daemon.admission.admission import ENTER, WRITE, has_access_list, may
from freetrain.daemon.controls.nudge import WAKE_NAME
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.finding import Finding, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings

log = logging.getLogger(__name__)

_COMMENT = re.compile(r"--\[\[.*?\]\]|--[^\n]*", re.DOTALL)
_CHAINED = "freetrain.lua"
"""What docs/admins/plug-in.md calls the plug-in where the site has a script of its own."""
_ASKED_EVERY_S = 60.0


class WakeCheck:
    """Finds it out now and then for a daemon at work, and logs it once.

    Args:
        directory: the daemon's state directory.
        gateway: the way to Slurm, which is not asked for this.
        clock_s: running seconds.
    """

    def __init__(self, directory: Path, gateway: Gateway, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._gateway = gateway
        self._clock_s = clock_s
        self._asked_s = -inf
        self._problem = ""

    def problem(self) -> str:
        """Why slurmctld cannot wake the daemon, and what mends that; empty: nothing is the matter."""
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
    """That slurmctld's account may not write the wake file although a plug-in of Slurm's names it.

    None where it may, or need not, or where nobody can say from here: the plug-in cannot be read, the account is
    not known on this machine, the file is not there yet, or has an access list.
    """
    path = directory / WAKE_NAME
    plugin = _plugin_naming(path, settings)
    if plugin is None:
        return None
    try:
        person = pwd.getpwnam(settings.slurm_user)
        groups = os.getgrouplist(person.pw_name, person.pw_gid)
        if any(has_access_list(each) for each in (path, directory)):
            return None
        mends = [*_opening(directory, person, groups), *_mending(path, person, groups)]
    except (OSError, KeyError):
        return None
    if not mends:
        return None
    what = f"{plugin} is to wake the daemon, but slurmctld's account, {person.pw_name}, cannot write {path}."
    return warning(what, "\n".join(mends))


def _plugin_naming(path: Path, settings: SlurmSettings) -> str | None:
    """The plug-in whose script writes to the file."""
    plugins = {
        "JobCompType=jobcomp/lua": ("jobcomp.lua", settings.job_comp_type == "jobcomp/lua"),
        "JobSubmitPlugins=lua": ("job_submit.lua", "lua" in settings.job_submit_plugins),
    }
    scripts = Path(settings.conf_file).parent
    for name, (script, is_used) in plugins.items():
        if is_used and any(str(path) in _code(scripts / each) for each in (script, _CHAINED)):
            return name
    return None


def _code(script: Path) -> str:
    """What a script does, without its comments; nothing where it cannot be read."""
    try:
        return _COMMENT.sub("", script.read_text(errors="replace"))
    except OSError:
        return ""


def _opening(directory: Path, person: pwd.struct_passwd, groups: Collection[int]) -> Iterator[str]:
    if not may(ENTER, directory.stat(), person.pw_uid, groups):
        yield f"chmod a+x {directory}"


def _mending(path: Path, person: pwd.struct_passwd, groups: Collection[int]) -> Iterator[str]:
    file = path.stat()
    if may(WRITE, file, person.pw_uid, groups):
        return
    if file.st_uid == person.pw_uid:
        yield f"chmod u+w {path}"
        return
    if file.st_gid not in groups:
        yield f"chgrp {grp.getgrgid(person.pw_gid).gr_name} {path}"
    if not file.st_mode & 0o020:
        yield f"chmod g+w {path}"
