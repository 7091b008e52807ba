"""The loop that remembers: what was recorded of a daemon's looks gives the same plans when it is played again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freetrain.core.plan import Action
from freetrain.core.trainer import TrainerPast
from freetrain.lending.facts import Facts
from freetrain.loop.cycle import Goal, NullJournal
from freetrain.loop.lending_loop import LendingLoop
from freetrain.policies import find_policy
from tests.daemon.conftest import Daemon
from tests.daemon.conftest import start_daemon as daemons
from tests.daemon.fake_slurm import FakeSlurm
from tests.daemon.test_crashes import EVENTS, happen

GOAL = Goal.of(find_policy("freetrain"), "weighted")


class Recorder:
    """Stands before a daemon's cluster and keeps what it showed and was told."""

    def __init__(self, daemon: Daemon) -> None:
        self._cluster = daemon.cluster
        self.facts: list[Facts] = []
        self.actions: list[Action] = []

    def observe(self) -> Facts:
        self.facts.append(self._cluster.observe())
        return self.facts[-1]

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        return self._cluster.past_of(trainers)

    def act(self, action: Action, decision: str | None) -> None:
        self.actions.append(action)
        self._cluster.act(action, decision)


class Recording:
    """Shows what was recorded, and keeps what it is told."""

    def __init__(self, facts: list[Facts]) -> None:
        self._facts: Iterator[Facts] = iter(facts)
        self.actions: list[Action] = []

    def observe(self) -> Facts:
        return next(self._facts)

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        return {}

    def act(self, action: Action, decision: str | None) -> None:
        self.actions.append(action)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 7)), max_size=20))
def test_recorded_looks_give_the_same_plans_again(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
    slurm, folder = FakeSlurm(), tmp_path_factory.mktemp("looks")
    slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = begun(slurm, folder)
    recorder = Recorder(daemon)
    live = LendingLoop(recorder, daemon.loop.rules, NullJournal(), lambda: 0.0)
    for event, number in events:
        if event not in ("restart", "silence"):
            happen(slurm, event, number)
        slurm.advance(5.0)
        live.look(GOAL)
        slurm.start_what_can()
    recording = Recording(recorder.facts)
    again = LendingLoop(recording, daemon.loop.rules, NullJournal(), lambda: 0.0)
    for _ in events:
        again.look(GOAL)
    assert recording.actions == recorder.actions
    assert again.memory == live.memory


def begun(slurm: FakeSlurm, folder: Path) -> Daemon:
    daemon: Daemon = daemons.__wrapped__(slurm, folder)()  # type: ignore[attr-defined]
    daemon.tell()
    return daemon
