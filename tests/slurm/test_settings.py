from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.settings import (
    clock_ahead_s,
    parse_controller_s,
    parse_last_plan_s,
    parse_rights,
    parse_settings,
)

RECORDED = Path(__file__).parent / "recorded"
SDIAG = """\
Main schedule statistics (microseconds):
\tLast cycle:   53
\tLast cycle when: Sat Nov 21 08:50:00 2026 (1795251000)

Backfilling stats
\tTotal backfilled jobs (since last slurm start): 16
\tLast cycle when: Sat Nov 21 08:49:32 2026 (1795250972)
\tLast cycle: 387
"""
CONFIG = """\
Configuration data as of 2026-11-21T08:50:00
ClusterName             = c
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
SchedulerParameters     = bf_continue,bf_interval=5,bf_window=10080
SlurmUser               = slurm(64030)
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at host is UP
"""


def test_the_settings_that_matter_are_found() -> None:
    found = parse_settings(CONFIG)
    assert (found.cluster, found.version, found.slurm_user) == ("c", "22.05.8", "slurm")
    assert (found.preempt_type, found.preempt_mode) == ("preempt/partition_prio", "REQUEUE")
    assert (found.backfill_interval_s, found.backfill_resolution_s) == (5.0, 60.0)


@pytest.mark.parametrize(
    ("consumed", "memory"), [("CR_CORE", False), ("CR_CORE_MEMORY", True), ("CR_CPU_MEMORY", True)]
)
def test_memory_is_shared_out_where_slurm_counts_it(consumed: str, memory: bool) -> None:
    assert parse_settings(f"{CONFIG}SelectTypeParameters    = {consumed}\n").shares_out_memory is memory
    assert parse_settings(CONFIG).shares_out_memory, "rather too little is lent"


def test_what_slurm_does_not_say_is_its_default() -> None:
    found = parse_settings("PreemptType = preempt/none\n")
    assert (found.preempt_mode, found.backfill_interval_s) == ("OFF", 30.0)


@pytest.mark.parametrize("text", ["", "slurm_load_ctl_conf error: Unexpected message received\n", "PreemptTy"])
def test_another_text_is_not_a_slurm_that_does_not_preempt(text: str) -> None:
    with pytest.raises(SlurmUnclearError, match="answer to scontrol show config cannot be understood"):
        parse_settings(text)


def test_the_last_plan_is_that_of_the_backfill_scheduler() -> None:
    assert parse_last_plan_s(SDIAG) == 1795250972.0
    assert parse_last_plan_s(SDIAG.replace("1795250972", "0")) is None
    assert parse_last_plan_s("") is None


def test_rights_are_a_level_and_the_accounts_coordinated() -> None:
    operator, coordinator, nobody = map(parse_rights, ("Operator|\n", "None|ml,physics\n", ""))
    assert operator is not None
    assert operator.is_operator
    assert coordinator is not None
    assert (coordinator.may_steer, coordinator.is_operator) == (True, False)
    assert nobody is None


@pytest.mark.parametrize(
    ("version", "whole", "planned_s"), [("22.05", "22.05.8", 1795294248.0), ("25.11", "25.11.7", 1795294299.0)]
)
def test_what_a_real_slurm_says_of_itself_is_found(version: str, whole: str, planned_s: float) -> None:
    found = parse_settings((RECORDED / f"config_{version}.txt").read_text())
    assert (found.cluster, found.version, found.slurm_user) == ("lab", whole, "slurm")
    assert (found.preempt_type, found.preempt_mode) == ("preempt/partition_prio", "REQUEUE")
    assert found.backfill_interval_s == 5.0
    assert parse_last_plan_s((RECORDED / f"sdiag_{version}.txt").read_text()) == planned_s


def test_a_parameter_of_zero_is_slurms_default() -> None:
    zeros = "bf_interval=0,bf_resolution=0,bf_window=0,bf_max_job_test=0"
    found = parse_settings(f"PreemptType = preempt/none\nSchedulerParameters = {zeros}\n")
    assert (found.backfill_interval_s, found.backfill_resolution_s) == (30.0, 60.0)
    assert (found.backfill_window_s, found.backfill_most_jobs) == (86400.0, 500)


def test_when_slurm_answered_stands_above_its_settings() -> None:
    assert parse_controller_s((RECORDED / "config_22.05.txt").read_text()) == 1_795_294_248.0
    assert parse_controller_s(CONFIG) is None, "in words that depend on who asks"


@pytest.mark.parametrize(
    ("controller_s", "asked_s", "answered_s", "ahead_s"),
    [
        (1000.0, 1000.2, 1000.3, 0.0),
        (1000.0, 999.9, 1000.9, 0.0),
        (1000.0, 990.0, 1010.0, 0.0),
        (1000.0, 1008.5, 1008.6, 7.5),
        (1000.0, 991.0, 992.0, -8.0),
        (None, 1.0, 2.0, 0.0),
    ],
)
def test_a_clock_is_ahead_by_no_more_than_can_be_told(
    controller_s: float | None, asked_s: float, answered_s: float, ahead_s: float
) -> None:
    assert clock_ahead_s(controller_s, asked_s, answered_s) == ahead_s
