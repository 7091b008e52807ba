from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from freetrain.config import Config, Slurm
from freetrain.core.decision import Decision
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.live_cluster import NO_SNAPSHOT, LiveCluster, LookInputs
from freetrain.daemon.reports.look_log import tell_findings
from freetrain.daemon.rules import roster_rules_of, rules_of
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.daemon.trainers.training import RosterRules
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement
from freetrain.lending.training_verdicts import Reason, TrainingContext
from freetrain.loop.cycle import Goal, NullJournal
from freetrain.loop.lending_loop import LendingLoop
from freetrain.policies import find_policy
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.settings import SlurmSettings
from freetrain.slurm.steering import Steering
from freetrain.store.ledger import Ledger
from freetrain.store.store import Store
from tests.daemon.fake_slurm import NODES, FakeSlurm

SETTINGS = SlurmSettings("fake", "22.05", "preempt/partition_prio", "REQUEUE", 5.0, 1.0, "slurm")


@dataclass
class Daemon:
    """The daemon's inside, look by look."""

    slurm: FakeSlurm
    ledger: Ledger
    roster_rules: RosterRules
    told: LookInputs = field(init=False)
    cluster: LiveCluster = field(init=False)
    loop: LendingLoop = field(init=False)
    journal: sqlite3.Connection = field(init=False)

    def cycle(self, reports: dict[str, Report] | None = None, after_s: float = 5.0, **known: Any) -> Decision:
        """Some time goes by, and the daemon looks; it knows these facts besides what Slurm answers."""
        self.slurm.advance(after_s)
        self.tell(reports, **known)
        look = self.loop.look(Goal.of(find_policy("freetrain"), self.loop.rules.objective))
        self.slurm.start_what_can()
        return look.decisions[-1]

    def tell(self, reports: dict[str, Report] | None = None, **known: Any) -> None:
        """Let the next looks know these facts, besides what Slurm answers."""
        half_life_s = self.loop.rules.sharing.half_life_s
        facts = replace(Facts(NO_SNAPSHOT, leaving_bound_s=0.0), **known)
        self.told = LookInputs(self.roster_rules, half_life_s, facts, reports or {})

    @property
    def judgement(self) -> Judgement:
        """On the last look."""
        assert self.loop.last is not None
        return self.loop.last.judgement

    @property
    def verdicts(self) -> Mapping[str, Reason]:
        """What was submitted → why it has no nodes, or no more."""
        assert self.loop.last is not None
        trainers = {training.id: training.trainer for training in self.cluster.registered.trainings}
        return self.loop.last.verdicts(trainers, self.cluster.registered.waits_for)

    @property
    def waits_for(self) -> Mapping[str, str]:
        """Trainer that has no node although it could run → why."""
        assert self.loop.last is not None
        look = self.loop.last
        served = TrainingContext(look.judgement, look.decisions).served_submissions
        active = {
            e.trainer.id for e in self.cluster.registered.trainings if e.trainer.state is TrainerState.ACTIVE
        }
        return {id_: found.why for id_, found in self.verdicts.items() if id_ in active - served}


class Numbered(NullJournal):
    """Keeps nothing, and calls every decision the first."""

    def next_decision(self) -> str:
        return "1:1"


StartDaemon = Callable[..., Daemon]


@pytest.fixture
def slurm(request: pytest.FixtureRequest) -> FakeSlurm:
    """With the nodes that a test names as its parameter."""
    return FakeSlurm(getattr(request, "param", NODES))


@pytest.fixture
def start_daemon(slurm: FakeSlurm, tmp_path: Path) -> StartDaemon:
    """Starts a daemon on the same database as the one before it; changes are of its rules, wherever they are."""

    def start(mode: Mode = Mode.ACT, launcher: Launcher | None = None, **changes: object) -> Daemon:
        ledger, launcher = Store.open(tmp_path / "freetrain.db").ledger(), launcher or Steering()
        config = Config(slurm=Slurm(partition=slurm.queue.partition, qos=slurm.queue.qos))
        rules, roster_rules = rules_of(config, SETTINGS), roster_rules_of(config, SETTINGS, launcher)
        for name, value in changes.items():
            if hasattr(rules, name):
                rules = replace(rules, **{name: value})  # type: ignore[arg-type]
            elif hasattr(rules.nodes, name):
                rules = replace(rules, nodes=replace(rules.nodes, **{name: value}))  # type: ignore[arg-type]
            elif hasattr(rules.sharing, name):
                rules = replace(rules, sharing=replace(rules.sharing, **{name: value}))  # type: ignore[arg-type]
            else:
                roster_rules = replace(roster_rules, **{name: value})  # type: ignore[arg-type]
        daemon = Daemon(slurm, ledger, roster_rules)
        # As its journal: if no connection stays, each that closes writes all back to the file.
        daemon.journal = sqlite3.connect(tmp_path / "freetrain.db")
        daemon.journal.execute("SELECT * FROM runs").fetchone()
        executor = Executor(slurm, ledger, mode, lambda: slurm.now_s, lambda seconds: None)
        daemon.cluster = LiveCluster(slurm, launcher, executor, ledger, lambda: daemon.told)
        daemon.loop = LendingLoop(
            daemon.cluster, rules, Numbered(), lambda: 0.0, lambda found: record(found, ledger)
        )
        return daemon

    return start


def record(judgement: Judgement, ledger: Ledger) -> None:
    """Keep what the daemon keeps of it."""
    tell_findings(judgement.memory)
    for harm in judgement.memory.meter.new:
        ledger.record_harm(harm)
