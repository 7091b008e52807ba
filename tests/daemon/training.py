"""The whole lender on a Slurm of the imagination, with users whose trainings write progress."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.daemon.admission.admission import SiteGuard
from freetrain.daemon.lender import Lender
from freetrain.daemon.trainers.training import Training
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.journal import NewRun
from freetrain.store.store import Store
from tests.daemon.fake_slurm import FakeSlurm
from tests.hostile import RATE

SETTINGS = SlurmSettings("fake", "22.05", "preempt/partition_prio", "REQUEUE", 5.0, 1.0, "slurm")


def everybody_is_me(monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of the imagination own what this test writes."""
    monkeypatch.setattr(pwd, "getpwnam", lambda _: SimpleNamespace(pw_uid=os.getuid(), pw_gid=os.getgid()))


@dataclass
class Site:
    """A Slurm, a folder for users' directories, and a database that outlives its daemons.

    Attributes:
        folder: where everything lies.
        store: the database.
        objective: what is maximised.
        policy: who decides.
        place: which nodes.
        harm: settings of that section that are not the defaults.
        links: likewise.
        freeze: likewise.
        slurm: the machine.
        lender: of the daemon that runs now.
    """

    folder: Path
    store: Store
    objective: str = "speedup"
    policy: str = "freetrain"
    place: str = "first"
    harm: dict[str, float] = field(default_factory=dict)
    links: dict[str, float] = field(default_factory=dict)
    freeze: dict[str, dict[str, str]] = field(default_factory=dict)
    slurm: FakeSlurm = field(default_factory=FakeSlurm)
    lender: Lender = field(init=False)

    @contextlib.contextmanager
    def daemon(self) -> Iterator[Lender]:
        """A daemon that begins here and ends; what it lent stays lent."""
        config = Config.model_validate(
            {
                "lend": {"mode": "act", "launcher": "steer"},
                "state": {"stop_file": str(self.folder / "STOP")},
                "decide": {"objective": self.objective, "policy": self.policy, "place": self.place},
                "harm": self.harm,
                "links": self.links,
                "freeze": self.freeze,
            }
        )
        run = NewRun("freetrain daemon", "0", {}, 0.0, 0.0, 0.0, tuple(self.slurm.nodes))
        with self.store.begin_run(run, batch_decisions=1) as journal:
            guard = SiteGuard(self.slurm, 5.0)
            self.lender = Lender(
                config, self.slurm, SETTINGS, self.store.ledger(), journal, guard, lambda: self.slurm.now_s
            )
            yield self.lender

    def look(self, times: int = 1) -> list[Decision]:
        """Some time goes by, progress is read, and the daemon looks; twice, so that it sees what it did."""
        for _ in range(times):
            self.slurm.advance(5.0)
            self.lender.read_progress()
            decisions = self.lender.look(1.0)
        return decisions

    def training(self, array: str) -> Training:
        """What the daemon thinks of a trainer."""
        (found,) = [entry for entry in self.lender.trainings if entry.trainer.id == array]
        return found

    def competes(self, array: str) -> bool:
        """Whether it may have nodes."""
        assert self.lender.judgement is not None
        return any(request.id == array for request in self.lender.judgement.selection.competing)

    def directory(self, name: str) -> Path:
        """A trainer's directory."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def train(self, name: str, *lines: bytes) -> None:
        """Progress that a trainer writes."""
        with (self.directory(name) / "progress.jsonl").open("ab") as stream:
            stream.writelines(line + b"\n" for line in lines)


def rate(**changes: object) -> bytes:
    """A line of progress as the runtime writes it."""
    return json.dumps({**RATE, **changes}).encode()
