"""What the options of ``freetrain replay`` about the daemon become."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.cli.replay import replay_command
from freetrain.cli.replay_as_options import as_daemon
from freetrain.errors import InputError
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.timing import Timing, Wakes


@pytest.mark.parametrize(
    ("options", "timing"),
    [
        ((), Timing()),
        (("--evict", "30s"), Timing(evict_s=30.0)),
        (("--launch", "2s", "--boot", "30s", "--wake"), Timing(wakes=Wakes(), launch_s=2.0, boot_s=30.0)),
    ],
)
def test_how_long_things_take_is_as_asked(options: tuple[str, ...], timing: Timing) -> None:
    given = replay_command.make_context("replay", ["site.psv", *options]).params
    how = as_daemon(given, Goal.of(find_policy("freetrain"), "throughput"))
    assert how is not None
    assert how.timing == timing


CONF = """# site
SCHEDULERPARAMETERS=bf_interval=120,bf_max_job_test=2000,\\
bf_resolution=300  # coarse
PreemptExemptTime=00:05:00
PartitionName=DEFAULT GraceTime=5
PartitionName=main Nodes=n[1-4]
PartitionName=freetrain GraceTime=60 Nodes=n[1-4] PriorityTier=1
"""


def test_how_slurm_plans_and_preempts_is_as_its_own_file_says(tmp_path: Path) -> None:
    (conf := tmp_path / "slurm.conf").write_text(CONF)
    given = replay_command.make_context("replay", ["site.psv", "--slurm-conf", str(conf)]).params
    how = as_daemon(given, Goal.of(find_policy("freetrain"), "throughput"))
    assert how is not None
    backfill = how.rules.nodes.backfill
    assert (backfill.interval_s, backfill.resolution_s, backfill.most_jobs) == (120.0, 300.0, 2000)
    assert how.timing.evict_s == Timing().evict_s + 60.0
    asked = replay_command.make_context(
        "replay", ["site.psv", "--slurm-conf", str(conf), "--bf-interval", "7"]
    ).params
    how = as_daemon(asked, Goal.of(find_policy("freetrain"), "throughput"))
    assert how is not None
    assert how.rules.nodes.backfill.interval_s == 7.0


def test_a_file_that_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    given = replay_command.make_context("replay", ["site.psv", "--slurm-conf", str(tmp_path / "none")]).params
    with pytest.raises(InputError, match="cannot be read"):
        as_daemon(given, Goal.of(find_policy("freetrain"), "throughput"))
