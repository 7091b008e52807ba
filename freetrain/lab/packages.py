"""What the distribution must have installed."""

from __future__ import annotations

import os
import shutil

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
