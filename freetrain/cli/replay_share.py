"""The options of ``freetrain replay`` about what could be lent beside jobs, and what they become."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.config import Config, load_config
from freetrain.errors import InputError
from freetrain.lending.rules import Share
from freetrain.replay.logs import TaskAsked
from freetrain.replay.trainers import read_task
from freetrain.slurm.parsing import parse_amount

share_options = options(
    click.option(
        "--share",
        type=click.Choice([str(Share.GPUS), str(Share.ANY)]),
        help="Lend parts of nodes, too (lend.share), beside the jobs of nodes that these use in part and on nodes "
        "without jobs: what tasks as --task says would have fit there is counted, and the trainers are replayed "
        "on it once more, each of their nodes being one such task.",
    ),
    click.option(
        "--task",
        metavar="AMOUNT",
        help="What each task asks for, as gres/gpu=1,cpu=4,mem=16G, of trainers that do not say it themselves  "
        "[default: one CPU, with --share gpus one GPU besides].",
    ),
)


def task_asked(given: Mapping[str, Any]) -> TaskAsked | None:
    """What a task asks for where parts of nodes are lent; None: that is not asked.

    Raises:
        InputError: it asks for nothing that could be counted.
        ConfigError: the daemon's settings are wrong.
    """
    if given["share"] is None:
        if given["task"] is not None:
            raise InputError(
                "--task says what tasks ask for of shared nodes, which are not lent.", "Add --share gpus or any."
            )
        return None
    of_gpus = given["share"] == Share.GPUS
    text = given["task"] or ("gres/gpu=1,cpu=1" if of_gpus else "cpu=1")
    try:
        each = read_task(text)
    except ValueError as error:
        raise InputError(f"--task {text}: {error}.") from error
    if of_gpus and not each.gpus:
        raise InputError(
            f"--task {text} asks for no GPU, and with lend.share = gpus such a task gets whole nodes.",
            "Add gres/gpu=1, or say --share any.",
        )
    _, _, path = given["played_as"].partition("=")
    lend = (load_config(Path(path)).config if path else Config()).lend
    return TaskAsked(each, parse_amount(lend.keep), lend.shortest_hole)
