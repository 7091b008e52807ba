"""``freetrain freeze``: runs a filler's task under the site's freezer, which saves it when its node is needed."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import argument, option
from freetrain.cli.site import SiteContext
from freetrain.elastic.on_node.freezing import Freezer, FrozenTask
from freetrain.errors import InputError
from freetrain.slurm.tags import Tag, tag_in


@command("freeze", first=("--freezer", "--dir"))
def freeze_command(
    *,
    name: str | None = option("--freezer", "One of the site's.  [default: the tag's freeze]", metavar="NAME"),
    directory: Path | None = option(
        "--dir",
        "Where tasks are saved, on a file system that all nodes share.  "
        "[default: the tag's dir, else freetrain-frozen-JOBID in the working directory]",
        metavar="PATH",
    ),
    verbose: bool = option("-v --verbose", "Say what happens."),
    site: SiteContext,
    command: tuple[str, ...] = argument(nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…"),
) -> None:
    """Run a program that cannot save itself, so that a task that loses its node loses no work.

    On SIGTERM the program is saved, and the exit status is 75; the next run of the same task goes on with it.
    docs/users/freeze.md shows a filler of such tasks.
    """
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="freetrain: %(message)s")
    array = os.environ.get("SLURM_ARRAY_JOB_ID", os.environ.get("SLURM_JOB_ID", ""))
    tasks = site.slurm.job(array) if array and not (name and directory) else []
    # An empty tag outside of a filler
    tag = next((found for task in tasks if (found := tag_in(task.comment))), Tag())
    settings, name = site.config.freeze, name or tag.freeze
    if name not in settings.launch:
        known = ", ".join(sorted(settings.launch)) or "none"
        raise InputError(
            f"there is no freezer {name!r}: the site has {known}." if name else "no freezer is named.",
            "Submit with --freeze NAME, or name one with --freezer; the table [freeze] of the settings has them.",
        )
    freezer = Freezer(settings.launch[name], settings.save[name], settings.thaw[name], settings.within)
    root = directory or Path(tag.directory or f"freetrain-frozen-{array}")
    task = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
    raise SystemExit(FrozenTask(freezer, root.absolute(), task).run(command))
