"""What the distribution must have installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from freetrain.errors import ExitCode, FreetrainError

SEARCH_PATH = ":".join(filter(None, (os.environ.get("PATH"), "/usr/local/sbin", "/usr/sbin", "/sbin")))
"""Daemons lie where ordinary users do not look."""

_APT = "apt install slurm-wlm slurmdbd munge mariadb-server"
_ALWAYS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "scancel")
_FOR_ACCOUNTING = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")


def require_programs(accounting: bool) -> None:
    """Complain where a program is missing that a lab needs."""
    wanted = (*_ALWAYS, *(_FOR_ACCOUNTING if accounting else ()))
    missing = [program for program in wanted if shutil.which(program, path=SEARCH_PATH) is None]
    if missing:
        raise FreetrainError(
            f"A lab needs programs that are not installed here: {', '.join(missing)}.",
            f"On Debian and Ubuntu: {_APT}",
            ExitCode.CONFIGURATION,
        )


def slurm_version() -> tuple[int, int]:
    """Year and month of the Slurm that comes first in the search path, as (22, 5)."""
    program = shutil.which("slurmctld", path=SEARCH_PATH) or "slurmctld"
    told = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    if found is None:
        raise FreetrainError(f"'{program} -V' does not say which Slurm it is: {told.strip()!r}.")
    return int(found[1]), int(found[2])
