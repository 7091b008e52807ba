"""The lab's directory: made, and emptied of an earlier lab."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from freetrain.errors import InputError, StateError
from freetrain.lab.layout import Layout
from freetrain.lab.options import LabOptions
from freetrain.lab.people import People

_FORMAT = "freetrain-lab/1"
_OTHERS_MAY_WRITE = 0o022
_ALL_MAY_PASS = 0o111


def prepare(layout: Layout, options: LabOptions, people: People) -> None:
    """Make the directories of a new lab; those of an earlier one, which has ended, go."""
    root = layout.root
    _make_own(root)
    present = {entry.name for entry in root.iterdir()}
    if present and layout.parameters.name not in present:
        raise InputError(
            f"{root} is neither empty nor the directory of a lab.", "Choose another with --dir, or empty it."
        )
    _require_passable(root, people)
    root.chmod(0o755)
    _remove_earlier(layout)
    _write_parameters(layout, options, people)
    for directory in layout.services:
        directory.mkdir(mode=0o755)
        os.chown(directory, *people.service_ids)
    for private in (layout.state, layout.database, layout.database_scratch):
        private.chmod(0o700)
    for name in options.node_names:
        layout.node(name).mkdir(mode=0o755, parents=True)
    for gpu in layout.gpus(options.gpus):
        gpu.touch()


def _remove_earlier(layout: Layout) -> None:
    for directory in (*layout.services, layout.nodes):
        if directory.exists():
            shutil.rmtree(directory)
    configuration = (layout.slurm_conf, layout.slurmdbd_conf, layout.gres_conf, layout.cgroup_conf)
    for file in (*configuration, layout.topology_conf, layout.job_submit, layout.job_comp):
        file.unlink(missing_ok=True)


def _write_parameters(layout: Layout, options: LabOptions, people: People) -> None:
    """Write down what the lab was made with."""
    document = {"format": _FORMAT, "user": os.geteuid(), "users": dict(people.roles), "options": options.to_json()}
    layout.parameters.write_text(json.dumps(document, indent=2) + "\n")


def read_parameters(layout: Layout) -> tuple[LabOptions, int, dict[str, str]]:
    """What a lab was made with, the number of the user who made it, and the accounts of its people."""
    try:
        document: dict[str, Any] = json.loads(layout.parameters.read_text())
        return LabOptions.from_json(document["options"]), document["user"], document["users"]
    except FileNotFoundError:
        raise InputError(f"There is no lab in {layout.root}.", "Make one with: freetrain lab up") from None
    except OSError as error:
        raise StateError(f"{layout.parameters} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{layout.parameters} does not describe a lab: {error}.") from error


def _make_own(root: Path) -> None:
    """Make the directory; one that others can write to, or have made, could lead the daemons astray."""
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = root.stat()
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
            raise InputError(f"{root} is not yours alone to write to.", "Choose another directory with --dir.")
    except OSError as error:
        raise InputError(f"No lab can be made in {root}: {error.strerror}.") from error


def _require_passable(root: Path, people: People) -> None:
    """Complain where a directory on the way is closed to other accounts; munged wants it open to all."""
    if people.nodes != people.service:
        closed = [each for each in root.parents if each.stat().st_mode & _ALL_MAY_PASS != _ALL_MAY_PASS]
        if closed:
            raise InputError(
                f"{root} is of no use to other accounts, because {closed[-1]} is closed to them.",
                "Choose another directory, for example in /tmp, or open that one: chmod a+x.",
            )
