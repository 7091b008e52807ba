"""Admission of settings: whether the daemon may take them, asked in the same way at its start and at a reload."""

from __future__ import annotations

import getpass
import logging
import os
from math import inf
from pathlib import Path

from freetrain.config import Config, ConfigError
from freetrain.core.cluster import Snapshot
from freetrain.daemon.admission.contradictions import (
    check_choices,
    check_contradictions,
    unknown_nodes,
    without_effect,
)
from freetrain.daemon.admission.site_guard import SiteGuard
from freetrain.daemon.admission.sole_lender import SoleLender
from freetrain.daemon.executor import AuditedOrders
from freetrain.errors import FreetrainError
from freetrain.slurm.errors import SlurmMissingError, SlurmUnfitError, SlurmUnreachableError
from freetrain.slurm.finding import Finding, error, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings

log = logging.getLogger(__name__)
_CONFS = tuple(map(Path, ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")))


def read_settings(gateway: Gateway) -> SlurmSettings:
    """Settings of Slurm that matter to the daemon."""
    try:
        return gateway.site(inf, 0).settings
    except SlurmUnreachableError as error:
        if os.environ.get("SLURM_CONF") or any(path.exists() for path in _CONFS):
            raise
        raise SlurmMissingError(
            "There is no slurm.conf on this machine, and no Slurm answers.",
            "Install it as /etc/slurm/slurm.conf, or set SLURM_CONF.",
        ) from error


def check_rights(config: Config, gateway: Gateway, settings: SlurmSettings) -> None:
    """Check that this account may steer the jobs of others, where it will have to.

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
    """Finding on the rights that this account lacks and the daemon needs; None: it lacks none."""
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


class Admission:
    """Checks settings, and holds what lending needs: a safe layout, and that nobody else lends."""

    def __init__(self, gateway: Gateway, orders: AuditedOrders, config: Config, settings: SlurmSettings) -> None:
        self._gateway = gateway
        self._settings = settings
        self.sole_lender = SoleLender(gateway, orders, settings, config.slurm.queue, Path(config.state.directory))
        self.guard = SiteGuard(gateway, config.pace.poll)

    def admit(self, config: Config) -> Snapshot:
        """Take these settings and return the snapshot that was looked at, or raise and leave all as it was.

        1. What they name is there, and none of it is unsafe by itself.
        2. Slurm's layout is safe, if they lend.
        3. This account may do what they want.
        4. No other daemon lends, if they lend.

        Raises:
            FreetrainError: they cannot be followed; the sentence says why.
        """
        check_choices(config)
        check_contradictions(config)
        snapshot = self._gateway.snapshot()
        self.guard.check(config, snapshot)
        unknown = unknown_nodes(config, snapshot)
        if unknown and unknown.is_unsafe and config.lend.mode == "act":
            raise ConfigError(unknown.what, f"Write: {' '.join(unknown.mend.splitlines())}", unknown.mend)
        check_rights(config, self._gateway, self._settings)
        if config.lend.mode == "act":
            self.sole_lender.claim(snapshot)
        else:
            self.sole_lender.close()
        if unknown:
            log.warning("%s", unknown.what)
        for sentence in without_effect(config).values():
            log.warning("%s", sentence)
        return snapshot
