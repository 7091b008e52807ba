"""Admission of settings: whether the daemon may take them, asked in the same way at its start and at a reload.

The site's jobs must be safe from fragments: that is judged again while the settings count. Nothing is lent where
Slurm's settings let these jobs wait; the log says why, and what mends it.
"""

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
from freetrain.daemon.admission.sole_lender import SoleLender
from freetrain.daemon.executor import AuditedOrders
from freetrain.daemon.log_output import Problems
from freetrain.errors import FreetrainError
from freetrain.slurm.errors import SlurmMissingError, SlurmUnfitError, SlurmUnreachableError
from freetrain.slurm.finding import Finding, describe, error, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.slurm.site.advice import advise
from freetrain.slurm.site.facts import Site
from freetrain.slurm.site.harm import Premise
from freetrain.slurm.site.reader import ALL_QUESTIONS
from freetrain.slurm.submissions import find_submissions

log = logging.getLogger(__name__)
_CONFS = tuple(map(Path, ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")))
# Slurm's settings change only when an admin changes them.
_MAX_AGE_S = 180.0

Owners = frozenset[tuple[str, str]]
"""Users with the accounts that their trainings are charged to."""


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


def premise_of(config: Config, owners: Owners = frozenset(), account: str = "") -> Premise:
    """Premise on which the site is judged: the queue where fragments are to run, and what is wanted of them."""
    lend = config.lend
    return Premise(
        config.slurm.queue,
        tolerable_s=config.harm.limit,
        owners=owners,
        shortest_hole_s=lend.shortest_hole,
        spares_suspendable=lend.spare_suspendable,
        in_parts=lend.in_parts,
        steers=lend.launcher == "steer",
        account=account,
    )


def owners_in(config: Config, snapshot: Snapshot) -> Owners:
    """The owners of all trainings that have been submitted."""
    submissions = find_submissions(snapshot.jobs, config.slurm.queue).values()
    return frozenset((submission.owner, submission.account) for submission in submissions)


def site_age_s(poll_s: float) -> float:
    """Greatest age that facts on the site may have, in seconds."""
    # So every second look has a question left for Slurm's plan.
    return max(_MAX_AGE_S, 2 * ALL_QUESTIONS * poll_s)


class SiteGuard:
    """Judges Slurm's settings when freetrain's are taken, and now and then while they count."""

    def __init__(self, gateway: Gateway, poll_s: float) -> None:
        self._gateway = gateway
        self._max_age_s = site_age_s(poll_s)
        self._judged: tuple[Site, Premise, list[Finding]] | None = None
        self._problems = Problems()
        self._last: Site | None = None
        self._ask_now = 0
        self.site = Site({})

    def check(self, config: Config, snapshot: Snapshot) -> None:
        """Refuse settings that would harm the site's jobs; log what is not as it should be otherwise.

        Raises:
            SlurmUnfitError: there is no such partition, or something is to be mended before anything is lent.
            SlurmError: Slurm does not answer.
        """
        site = self._gateway.site(0.0, ALL_QUESTIONS)
        findings = self._judge(site, premise_of(config, owners_in(config, snapshot)))
        unsafe = [finding for finding in findings if finding.is_unsafe]
        if config.slurm.queue.missing(site.partitions):
            raise SlurmUnfitError(unsafe[0].what, f"Apply these lines:{describe(unsafe[:1])}")
        if unsafe and config.lend.mode == "act":
            raise SlurmUnfitError(
                "Slurm's settings would let the site's jobs wait for fragments, so lend.mode = \"act\" is refused:"
                + describe(findings),
                "Apply what stands below each finding; what scontrol changes belongs into slurm.conf, too. "
                "See docs/admins/ready.md.",
            )
        self._last = site.without_clock()
        self._log(findings, site.problem, acts=False)

    def why_not(self, config: Config, owners: Owners) -> str:
        """Reason why nothing may be lent at the moment; empty: nodes may be. Asks Slurm at most one question."""
        hurries, self._ask_now = self._ask_now > 0, max(0, self._ask_now - 1)
        self.site = site = self._gateway.site(0.0 if hurries else self._max_age_s, 1)
        if config.slurm.queue.missing(site.partitions):
            # The look itself says so
            return ""
        findings = self._judge(site, premise_of(config, owners))
        unsafe = [finding for finding in findings if finding.is_unsafe]
        acts = config.lend.mode == "act"
        self._log(findings, site.problem, acts)
        return f"Slurm's layout is unsafe: {unsafe[0].what.removesuffix('.')}" if unsafe and acts else ""

    def has_changed(self) -> bool:
        """Whether the site is another one than when this was last asked, whatever the clocks say."""
        before, self._last = self._last, self._gateway.site(float("inf"), 0).without_clock()
        return before is not None and before != self._last

    def ask_now(self) -> None:
        """Look at all of the site at the next looks: something in it is not as it seems."""
        self._ask_now = ALL_QUESTIONS

    def _judge(self, site: Site, premise: Premise) -> list[Finding]:
        # Asked at each look, and judging takes long: nothing new follows from the same site and premise.
        if self._judged is None or self._judged[:2] != (site, premise):
            self._judged = site, premise, list(advise(site, premise).findings)
        return self._judged[2]

    def _log(self, findings: list[Finding], problem: str, acts: bool) -> None:
        for finding in self._problems.new_among("findings", findings):
            level = logging.ERROR if finding.is_unsafe and acts else logging.WARNING
            log.log(level, "%s Mend it with: %s", finding.what, "; ".join(finding.mend.splitlines()))
        is_unsafe = any(finding.is_unsafe for finding in findings)
        if self._problems.has_changed("layout", is_unsafe) and not is_unsafe:
            log.info("Slurm's layout is safe again")
        if self._problems.is_new("accounting", problem):
            log.warning(
                "Slurm's accounting does not say which QOS there are; what it answered before counts: %s", problem
            )


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
