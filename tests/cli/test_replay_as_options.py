"""What the options of ``freetrain replay`` about the daemon become."""

from __future__ import annotations

import pytest

from freetrain.cli.replay import replay_command
from freetrain.cli.replay_as_options import as_daemon
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.timing import Timing, Wakes


@pytest.mark.parametrize(
    ("options", "timing"),
    [
        ((), Timing()),
        (("--launch", "2s", "--boot", "30s", "--wake"), Timing(wakes=Wakes(), launch_s=2.0, boot_s=30.0)),
    ],
)
def test_how_long_things_take_is_as_asked(options: tuple[str, ...], timing: Timing) -> None:
    given = replay_command.make_context("replay", ["site.psv", *options]).params
    how = as_daemon(given, Goal.of(find_policy("freetrain"), "throughput"))
    assert how is not None
    assert how.timing == timing
