"""What the options of ``freetrain replay`` about the daemon become."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.cli.replay import replay_command
from freetrain.cli.replay_options import ReplayOptions, daemon_setup
from freetrain.errors import InputError
from freetrain.replay.as_daemon.lent import Timing, Wakes


def options(*words: str) -> ReplayOptions:
    values = replay_command.make_context("replay", ["site.psv", *words]).params
    return ReplayOptions(**{name: value for name, value in values.items() if name not in ("logs", "definitions")})


@pytest.mark.parametrize(
    ("words", "timing"),
    [
        ((), Timing()),
        (("--evict", "30s"), Timing(evict_s=30.0)),
        (("--launch", "2s", "--boot", "30s", "--wake"), Timing(wakes=Wakes(), launch_s=2.0, boot_s=30.0)),
    ],
)
def test_how_long_things_take_is_as_asked(words: tuple[str, ...], timing: Timing) -> None:
    how = daemon_setup(options(*words))
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
    how = daemon_setup(options("--slurm-conf", str(conf)))
    assert how is not None
    backfill = how.rules.nodes.backfill
    assert (backfill.interval_s, backfill.resolution_s, backfill.most_jobs) == (120.0, 300.0, 2000)
    assert how.timing.evict_s == Timing().evict_s + 60.0
    how = daemon_setup(options("--slurm-conf", str(conf), "--bf-interval", "7"))
    assert how is not None
    assert how.rules.nodes.backfill.interval_s == 7.0


def test_a_file_that_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        daemon_setup(options("--slurm-conf", str(tmp_path / "none")))
