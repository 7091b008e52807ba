from __future__ import annotations

from dataclasses import replace

from freetrain.config import Config
from freetrain.core.trainer import Trainer
from freetrain.daemon.rules import rules_of
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.timing import Timing, Wakes
from freetrain.replay.foresight import Knowledge
from freetrain.replay.report.page import assumptions
from freetrain.replay.study import DaemonSetup
from tests.replay.report.conftest import SETTING, SLURM

TRAINERS = (
    Trainer("a", ((1, 1.0), (8, 8.0)), scale_up_s=0.3, start_s=30),
    Trainer("b", ((1, 1.0), (64, 8.0)), min_nodes=2),
)


def values(*given: object) -> dict[str, str]:
    rows = assumptions(*given)  # type: ignore[arg-type]
    return {row.name: f"{row.value} {row.meaning}".replace("\N{NO-BREAK SPACE}", " ").strip() for row in rows}


def test_costs_and_limits_are_those_of_the_trainers_that_came_in() -> None:
    said = values(SETTING, TRAINERS, None)
    assert said["growing costs"].startswith("0.3 to 18 s")
    assert said["shrinking costs"] == "12 s"
    assert said["losing nodes to the site costs"] == (
        "12 s each time, but no more than was trained since its last change"
    )
    assert said["starting costs"] == "0 to 30 s"
    assert said["at once"] == "at most 4 trainers of 1 to 64 nodes each"


def test_how_the_published_method_charges_is_said() -> None:
    said = values(replace(SETTING, published_losses=True, horizon_s=120.0), TRAINERS, None)
    assert said["losing nodes to the site costs"] == "12 s each time"
    assert said["looks ahead"] == "120 s"
    assert not any("foresight" in name for name in said)
    for knows in set(Knowledge) - {Knowledge.NONE}:
        assert "foresight" in values(replace(SETTING, foresight=knows), TRAINERS, None)


def test_the_daemons_pace_and_limits_are_said() -> None:
    goal = Goal.of(find_policy("freetrain"), "throughput")
    how = DaemonSetup(rules_of(Config(), SLURM), goal, Timing(poll_s=7, launch_s=1.3, boot_s=20, wakes=Wakes()))
    said = values(SETTING, TRAINERS, how)
    assert said["as daemon: it looks"] == "every 7 s, and when a job comes or ends"
    assert said["its node trains"] == "20 s later the boot"
    assert said["a fragment starts"].startswith("1.3 s after the order")
    assert said["longest fragment"] == "24 h"


def test_without_trainers_there_are_no_costs() -> None:
    assert "growing costs" not in values(SETTING, (), None)
