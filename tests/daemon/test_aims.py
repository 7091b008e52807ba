"""Deadlines and electricity on a daemon: what users may say, and what a site may want."""

from __future__ import annotations

from typing import Any

import pytest

from freetrain.config import Config, ConfigError
from freetrain.core.power import PowerDraw
from freetrain.core.throughput import Observation
from freetrain.daemon.admission.contradictions import check_choices
from freetrain.daemon.trainers.progress_reader import Report
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

HURRIED = {"decide": {"objective": "weighted,deadlines=9"}}


def settings(**given: Any) -> Config:
    return Config.model_validate(given)


@pytest.mark.parametrize("by", ["user", "account"])
def test_deadlines_and_electricity_may_be_wanted_together(by: str) -> None:
    decide = {"objective": "weighted,deadlines=3,energy=1200"}
    check_choices(settings(decide=decide, lend={"fair_share": by}, prices={"watts_per_node": 700}))


def test_deadlines_are_refused_where_users_compete_in_one_decision() -> None:
    with pytest.raises(ConfigError, match=r"decide\.objective: .* would take the others' nodes") as error:
        check_choices(settings(**HURRIED, lend={"fair_share": "off"}))
    assert "lend.fair_share" in str(error.value.hint)


def test_electricity_is_refused_where_nobody_says_what_nodes_take() -> None:
    with pytest.raises(ConfigError, match="nobody says what nodes take"):
        check_choices(settings(decide={"objective": "weighted,energy=1200"}))


CURVE = "max=8,curve=1:100/2:180/4:310/8:500,target=280000"


def lent(slurm: FakeSlurm, daemon: Daemon, *arrays: str) -> list[int]:
    """How many nodes each has after some looks."""
    for _ in range(3):
        daemon.cycle()
    return [len(slurm.running(array)) for array in arrays]


def test_a_training_with_a_deadline_gains_against_its_owners_others(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    due = slurm.submit_array(f"freetrain:{CURVE},deadline=10m", tasks=8)
    other = slurm.submit_array(f"freetrain:{CURVE}", tasks=8)
    assert lent(slurm, start_daemon(), due, other) == [4, 4], "the site counts no deadlines"
    hurried = start_daemon(objective="weighted,deadlines=9")
    assert lent(slurm, hurried, due, other) == [8, 0]


def test_a_deadline_counts_as_soon_as_it_is_known_how_fast_the_training_is(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    unknown = "max=8,target=3500"  # a curve that was never seen is relative to one node: 6.6 on eight
    due = slurm.submit_array(f"freetrain:{unknown},deadline=10m", tasks=8)
    other = slurm.submit_array(f"freetrain:{unknown}", tasks=8)
    daemon = start_daemon(objective="weighted,deadlines=9")
    assert lent(slurm, daemon, due, other) == [4, 4]
    seen = (Observation(4, 4.0, 60.0), Observation(8, 6.5, 60.0))
    daemon.cycle({due: Report(False, 10.0, seen, 100)})
    assert lent(slurm, daemon, due, other) == [8, 0]


def test_a_deadline_that_cannot_be_met_takes_nothing(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    due = slurm.submit_array(f"freetrain:{CURVE},deadline=9m", tasks=8)
    other = slurm.submit_array(f"freetrain:{CURVE}", tasks=8)
    assert lent(slurm, start_daemon(objective="weighted,deadlines=9"), due, other) == [4, 4]


@pytest.mark.parametrize("claims", [["deadline=10m"], ["deadline=10m"] * 5, ["deadline=1m", "deadline=99999d"]])
def test_whatever_deadlines_one_user_claims_another_keeps_his_share(
    slurm: FakeSlurm, start_daemon: StartDaemon, claims: list[str]
) -> None:
    for claim in claims:
        slurm.submit_array(f"freetrain:{CURVE},{claim}", tasks=8, user="games")
    honest = slurm.submit_array(f"freetrain:{CURVE}", tasks=8, user="news")
    assert lent(slurm, start_daemon(objective="weighted,deadlines=1000"), honest) == [4]


def test_a_wrong_deadline_is_wrong_for_its_training_alone(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    wrong = slurm.submit_array("freetrain:target=1e5,deadline=soon", tasks=8)
    other = slurm.submit_array(f"freetrain:{CURVE}", tasks=8)
    daemon = start_daemon(objective="weighted,deadlines=9")
    assert lent(slurm, daemon, wrong, other) == [0, 8]
    (note,) = (
        training.trainer.note for training in daemon.cluster.registered.trainings if training.trainer.id == wrong
    )
    assert note.startswith("deadline=soon is neither a time")


def test_nodes_that_would_not_earn_their_electricity_are_left_idle(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array(f"freetrain:{CURVE}", tasks=8)
    draw = PowerDraw(1000.0)
    # The 3rd and 4th node add 0.65 each of what the first does, the last four 0.475.
    daemon = start_daemon(objective="weighted,energy=2000", draw=draw)
    assert lent(slurm, daemon, array) == [4]
