"""The lab's directory: where its files lie, how it is made, and how it is emptied of an earlier lab."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from freetrain.errors import InputError, StateError
from freetrain.lab.options import LabOptions, People

MAX_SOCKET_BYTES = 107
"""Linux takes no longer path for a Unix socket."""

_PLAIN = re.compile(r"[A-Za-z0-9_.+@/-]+")
_LONGEST_STEP = "_4294967295.4294967295"
_FORMAT = "freetrain-lab/1"
_OTHERS_MAY_WRITE = 0o022
_ALL_MAY_PASS = 0o111


class LabLayout:
    """Where a lab's files lie, all below one directory.

    Attributes:
        root: the lab's directory, absolute.
        parameters: what the lab was made with.
        slurm_conf: Slurm's configuration; slurmdbd, slurmctld and slurmd look for theirs beside it.
        gres_conf: the nodes' GPUs.
        topology_conf: the switches between the nodes.
        cgroup_conf: how slurmd deals with the kernel's control groups.
        job_submit: the script that sees each submission.
        job_comp: the script that slurmctld calls at each end of a job.
        munge: directory of munged's key and socket.
        database: directory of MariaDB's data.
        database_socket: the socket of MariaDB, which listens on nothing else.
        state: directory of slurmctld's state.
        log: directory of the logs and pid files of all daemons but the slurmds.
        services: directories of all daemons but the slurmds.
        nodes: directory of the nodes' directories.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parameters = root / "lab.json"
        self.slurm_conf, self.slurmdbd_conf = root / "slurm.conf", root / "slurmdbd.conf"
        self.gres_conf, self.topology_conf, self.cgroup_conf = (
            root / f"{name}.conf" for name in ("gres", "topology", "cgroup")
        )
        self.job_submit, self.job_comp = root / "job_submit.lua", root / "jobcomp.lua"
        self.munge, self.munge_socket = root / "munge", root / "munge/munge.socket"
        self.database, self.database_socket = root / "database", root / "database/mariadb.socket"
        # Where servers of MariaDB share a directory for temporary files, each deletes the others' as it starts.
        self.database_scratch = root / "scratch"
        self.state, self.log, self.nodes = root / "state", root / "log", root / "nodes"
        self.services = (self.munge, self.database, self.database_scratch, self.state, self.log)

    def node(self, name: str) -> Path:
        """A node's spool, log and pid file; slurmd works in it, and so do its slurmstepds."""
        return self.nodes / name

    def gpus(self, count: int) -> list[Path]:
        """Files that stand for the GPUs, the same on every node."""
        return [self.nodes / f"gpu{index}" for index in range(count)]

    def require_usable(self, node: str) -> None:
        """Complain where the sockets' paths would be too long for Linux, or mean something to Slurm."""
        if not _PLAIN.fullmatch(str(self.root)):
            raise InputError(
                f"{self.root} cannot be a lab's directory: its name has characters that mean something to Slurm.",
                "Letters, digits and any of _ . + @ - / mean nothing.",
            )
        longest = self.node(node) / f"{node}{_LONGEST_STEP}"
        excess = len(os.fsencode(longest)) - MAX_SOCKET_BYTES
        if excess > 0:
            raise InputError(
                f"{self.root} is {excess} bytes too long for a lab: the paths of its sockets may have "
                f"{MAX_SOCKET_BYTES} bytes.",
                "Choose a shorter directory, for example one in /tmp.",
            )


def prepare(layout: LabLayout, options: LabOptions, people: People) -> None:
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


def _remove_earlier(layout: LabLayout) -> None:
    for directory in (*layout.services, layout.nodes):
        if directory.exists():
            shutil.rmtree(directory)
    configuration = (layout.slurm_conf, layout.slurmdbd_conf, layout.gres_conf, layout.cgroup_conf)
    for file in (*configuration, layout.topology_conf, layout.job_submit, layout.job_comp):
        file.unlink(missing_ok=True)


def _write_parameters(layout: LabLayout, options: LabOptions, people: People) -> None:
    """Write down what the lab was made with."""
    document = {"format": _FORMAT, "user": os.geteuid(), "users": dict(people.roles), "options": options.to_json()}
    layout.parameters.write_text(json.dumps(document, indent=2) + "\n")


def read_parameters(layout: LabLayout) -> tuple[LabOptions, int, dict[str, str]]:
    """A lab's options, the number of the user who made it, and the accounts of its people."""
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
        closed = [parent for parent in root.parents if parent.stat().st_mode & _ALL_MAY_PASS != _ALL_MAY_PASS]
        if closed:
            raise InputError(
                f"{root} is of no use to other accounts, because {closed[-1]} is closed to them.",
                "Choose another directory, for example in /tmp, or open that one: chmod a+x.",
            )
