"""What the holes allow where the tasks of trainers differ in what they ask for of nodes that are lent in parts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from freetrain.cli.progress_bars import replaying
from freetrain.cli.replay_as_options import as_daemon
from freetrain.cli.replay_options import costs
from freetrain.core.topology import Topology
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError
from freetrain.lending.rules import Share
from freetrain.loop.cycle import Goal
from freetrain.replay.logs import SiteLog
from freetrain.replay.study import Study, study_shapes
from freetrain.replay.trainers import read_task, with_own_tasks


def check_own_tasks(trainers: Iterable[Trainer], given: Mapping[str, Any]) -> None:
    """See that trainers' own tasks could be lent parts of nodes.

    Raises:
        InputError: one of them could not.
    """
    if given["share"] == Share.GPUS:
        for trainer in with_own_tasks(trainers):
            if not read_task(trainer.task).gpus:
                raise InputError(
                    f"Trainer {trainer.id}: task {trainer.task!r} asks for no GPU, and with lend.share = gpus "
                    "such a task gets whole nodes.",
                    "Add gres/gpu=1, or say --share any.",
                )


def replay_shapes(
    log: SiteLog, trainers: Iterable[Trainer], goal: Goal, given: Mapping[str, Any], switches: Topology
) -> Study:
    """Replay them on all parts that the log has room for."""
    how = given["played_as"] if given["played_as"] != "ideal" else "daemon"
    daemon = as_daemon({**given, "played_as": how}, goal, in_parts=True)
    assert daemon is not None
    rules = replace(daemon.rules, objective=goal.objective, horizon_s=given["horizon_s"])
    with replaying(log.holes.from_s, log.holes.until_s, given["quiet"]) as progress:
        return study_shapes(log, trainers, costs(given), rules, goal, time.perf_counter, progress, switches)
