from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.live_cluster import LiveCluster
from freetrain.daemon.setup import manners_of
from freetrain.daemon.sight import Manners
from freetrain.daemon.trainers.progress import Report
from freetrain.loop.cycle import Aims, NullJournal, run_cycle
from freetrain.policies import find_policy
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.settings import SlurmSettings
from freetrain.slurm.steering import Steering
from freetrain.store.ledger import Ledger
from freetrain.store.store import Store
from tests.daemon.fake_slurm import FakeSlurm


@dataclass
class Daemon:
    """The daemon's inside, cycle by cycle."""

    slurm: FakeSlurm
    ledger: Ledger
    cluster: LiveCluster

    def cycle(
        self,
        reports: dict[str, Report] | None = None,
        stopped: str = "",
        after_s: float = 5.0,
        drained: dict[str, str] | None = None,
    ) -> Decision:
        """Some time goes by, and the daemon looks."""
        self.slurm.advance(after_s)
        self.cluster.look(reports or {}, stopped, drained or {})
        aims = Aims(find_policy("freetrain"), "weighted", 120.0)
        decisions = run_cycle(self.cluster, aims, NullJournal(), lambda: 0.0)
        self.slurm.start_what_can()
        return decisions[-1]


StartDaemon = Callable[..., Daemon]


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture
def start_daemon(slurm: FakeSlurm, tmp_path: Path) -> StartDaemon:
    """Starts a daemon on the same database as the one before it."""

    def start(mode: Mode = Mode.ACT, launcher: Launcher | None = None, **changes: object) -> Daemon:
        ledger = Store.open(tmp_path / "freetrain.db").ledger()
        manners: Manners = manners_of(
            Config(), SlurmSettings("fake", "22.05", "preempt/partition_prio", "REQUEUE", 5.0, 1.0, "slurm")
        )
        rules = {name: changes.pop(name) for name in list(changes) if hasattr(manners.rules, name)}
        manners = replace(manners, rules=replace(manners.rules, **rules), **changes)  # type: ignore[arg-type]
        executor = Executor(slurm, ledger, mode, lambda: slurm.now_s, lambda seconds: None)
        cluster = LiveCluster(slurm, launcher or Steering(), executor, ledger, manners, lambda: "1:1")
        return Daemon(slurm, ledger, cluster)

    return start
