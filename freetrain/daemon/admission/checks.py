"""What must be right before the daemon begins: found out at once, and reported in a sentence."""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Collection
from math import inf
from pathlib import Path

from freetrain.config import Config
from freetrain.errors import FreetrainError
from freetrain.slurm.errors import SlurmMissingError, SlurmUnfitError, SlurmUnreachableError
from freetrain.slurm.finding import Finding, error, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings

log = logging.getLogger(__name__)


def read_settings(gateway: Gateway) -> SlurmSettings:
    """Slurm's settings that matter here.

    Raises:
        SlurmError: Slurm does not answer, or is not here.
    """
    try:
        return gateway.site(inf, 0).settings
    except SlurmUnreachableError as error:
        places = (
            Path("/etc/slurm/slurm.conf"),
            Path("/etc/slurm-llnl/slurm.conf"),
            Path("/run/slurm/conf/slurm.conf"),
        )
        if os.environ.get("SLURM_CONF") or any(place.exists() for place in places):
            raise
        raise SlurmMissingError(
            "There is no slurm.conf on this machine, and no Slurm answers.",
            "Install it as /etc/slurm/slurm.conf, or set SLURM_CONF.",
        ) from error


def check_rights(config: Config, gateway: Gateway, settings: SlurmSettings) -> None:
    """This account may steer the jobs of others; asked for only where it will have to.

    Raises:
        SlurmUnfitError: it may not.
    """
    if config.lend.mode != "act":
        return
    user = getpass.getuser()
    try:
        lack = lacking_rights(config, gateway, settings, user)
    except FreetrainError:
        log.warning("cannot find out which rights %s has: accounting does not answer", user)
        return
    if lack is None:
        return
    if lack.is_unsafe:
        raise SlurmUnfitError(lack.what, f"Run: {lack.mend}; or make it coordinator of an account.")
    log.info("%s", lack.what)


def lacking_rights(config: Config, gateway: Gateway, settings: SlurmSettings, user: str) -> Finding | None:
    """What this account may not do that the daemon has to; None: it may do everything.

    Raises:
        FreetrainError: accounting does not answer.
    """
    if config.lend.launcher != "steer" or user in ("root", settings.slurm_user):
        return None
    rights = gateway.rights(user)
    mend = f"sacctmgr -i modify user {user} set AdminLevel=Operator"
    if rights is None or not rights.may_steer:
        level = rights.admin_level if rights else "unknown"
        lines = mend if rights else f"sacctmgr -i add user {user} account=root\n{mend}"
        return error(f"{user} has no right to steer the jobs of others (AdminLevel {level}).", lines)
    if rights.is_operator:
        return None
    coordinated = ", ".join(rights.coordinates)
    return warning(f"{user} is coordinator of {coordinated}: only their jobs can be steered.", mend)


WRITE, ENTER = 0o2, 0o1


def may(wanted: int, file: os.stat_result, user: int, groups: Collection[int]) -> bool:
    """Whether a user with these groups may do this with a file: ``WRITE`` or ``ENTER``, or both."""
    if user == 0:
        return True
    if user == file.st_uid:
        return file.st_mode & wanted << 6 == wanted << 6
    if file.st_gid in groups:
        return file.st_mode & wanted << 3 == wanted << 3
    return file.st_mode & wanted == wanted


def has_access_list(path: Path) -> bool:
    """Whether an access list says more than owner, group and mode do."""
    return "system.posix_acl_access" in os.listxattr(path)
