from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.config import Config
from freetrain.daemon.admission.admission import SiteGuard
from freetrain.slurm.site.facts import Site
from tests.daemon.fake_slurm import FakeSlurm


class DriftingSlurm(FakeSlurm):
    """One whose clock is not this machine's."""

    clock_ahead_s = 0.0

    def site(self, max_age_s: float, most_questions: int) -> Site:
        return replace(super().site(max_age_s, most_questions), clock_ahead_s=self.clock_ahead_s)


def test_clocks_that_drift_do_not_make_another_site() -> None:
    slurm, observing = DriftingSlurm(), Config()
    guard = SiteGuard(slurm, 5.0)
    guard.check(observing, slurm.snapshot())
    slurm.clock_ahead_s = 7.0
    assert not guard.has_changed()
    slurm.partitions["main"] = replace(slurm.partitions["main"], priority_tier=20)
    assert guard.has_changed()


def test_clocks_that_drift_apart_while_the_daemon_runs_are_said(caplog: pytest.LogCaptureFixture) -> None:
    slurm = DriftingSlurm()
    acting = Config.model_validate({"lend": {"mode": "act"}})
    guard = SiteGuard(slurm, 5.0)
    guard.check(acting, slurm.snapshot())
    slurm.clock_ahead_s = 7.0
    assert guard.why_not(acting, frozenset()) == ""
    slurm.clock_ahead_s = -90.0
    assert guard.why_not(acting, frozenset()).startswith(
        "Slurm's layout is unsafe: The clock of this machine is 90 s"
    )
    assert "The clock of this machine is 7 s ahead of that of Slurm's controller" in caplog.text
