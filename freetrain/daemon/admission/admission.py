"""Whether the daemon may take settings: asked when it begins and when it reads them again, in the same way."""

from __future__ import annotations

import logging
from pathlib import Path

from freetrain.config import Config, ConfigError
from freetrain.core.cluster import Snapshot
from freetrain.daemon.admission.checks import check_rights
from freetrain.daemon.admission.choices import check_choices, without_effect
from freetrain.daemon.admission.contradictions import check_contradictions
from freetrain.daemon.admission.names import unknown_nodes
from freetrain.daemon.admission.site_guard import SiteGuard
from freetrain.daemon.admission.sole_lender import SoleLender
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings

log = logging.getLogger(__name__)


class Admission:
    """Checks settings, and holds what lending needs: a safe layout, and that nobody else lends."""

    def __init__(self, gateway: Gateway, config: Config, settings: SlurmSettings) -> None:
        self._gateway = gateway
        self._settings = settings
        self._sole = SoleLender(gateway, settings, config.slurm.queue, Path(config.state.directory))
        self.guard = SiteGuard(gateway, config.pace.poll)

    def admit(self, config: Config) -> Snapshot:
        """Take these settings, or raise and leave all as it was; the snapshot that was looked at.

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
            self._sole.claim(snapshot)
        else:
            self._sole.release()
        if unknown:
            log.warning("%s", unknown.what)
        for sentence in without_effect(config).values():
            log.warning("%s", sentence)
        return snapshot

    def renew(self) -> None:
        """Say in Slurm, now and then, that this daemon is still there: before each look.

        Raises:
            FreetrainError: another daemon lends in its place.
            SlurmUnreachableError: Slurm does not answer.
        """
        self._sole.renew()

    def close(self) -> None:
        """This daemon does not lend any more."""
        self._sole.release()
