"""``freetrain freeze``: runs a filler's task under the site's freezer, which saves it when its node is needed."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from freetrain.cli.helping import command
from freetrain.cli.options import argument, option
from freetrain.cli.site import SiteContext
from freetrain.config import FreezeSettings
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
    tag = _tag_of(array, site) if not (name and directory) else Tag()
    freezer = _find_freezer(site.config.freeze, name or tag.freeze)
    root = directory or Path(tag.directory or f"freetrain-frozen-{array}")
    task = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
    raise SystemExit(FrozenTask(freezer, root.absolute(), task).run(command))


def _find_freezer(settings: FreezeSettings, name: str) -> Freezer:
    """The freezer of this name."""
    if name not in settings.launch:
        known = ", ".join(sorted(settings.launch)) or "none"
        raise InputError(
            f"there is no freezer {name!r}: the site has {known}." if name else "no freezer is named.",
            "Submit with --freeze NAME, or name one with --freezer; the table [freeze] of the settings has them.",
        )
    return Freezer(settings.launch[name], settings.save[name], settings.thaw[name], settings.within)


def _tag_of(array: str, site: SiteContext) -> Tag:
    """The tag of the array whose task this is; an empty one outside of a filler."""
    tasks = site.slurm.job(array) if array else []
    return next((tag for task in tasks if (tag := tag_in(task.comment))), Tag())
