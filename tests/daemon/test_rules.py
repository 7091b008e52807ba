from __future__ import annotations

from freetrain.config import Config
from freetrain.daemon.rules import rules_of
from freetrain.lending.rules import PowerRules
from freetrain.slurm.settings import SlurmSettings

SPARING = Config.model_validate({"lend": {"spare_suspendable": True}})


def settings(suspend_s: float, nodes: str = "", partitions: str = "") -> SlurmSettings:
    return SlurmSettings(
        "c", "22.05.8", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm",
        suspend_s=suspend_s, suspend_not=(nodes, partitions),
    )  # fmt: skip


def test_nodes_that_slurm_powers_down_are_left_alone_where_the_site_says_so() -> None:
    down = settings(300.0, "c[1-4,7],d[1-9]:2", "debug,login")
    assert rules_of(Config(), down).nodes.power is None
    assert rules_of(SPARING, settings(float("inf"))).nodes.power is None
    assert rules_of(SPARING, down).nodes.power == PowerRules(
        frozenset({"c1", "c2", "c3", "c4", "c7"}), frozenset({"debug", "login"})
    )
