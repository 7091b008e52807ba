"""Where a lab's files lie: everything is below one directory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from freetrain.errors import InputError

MOST_SOCKET_BYTES = 107
"""Linux takes no longer path for a Unix socket."""

_PLAIN = re.compile(r"[A-Za-z0-9_.+@/-]+")
_LONGEST_STEP = "_4294967295.4294967295"


@dataclass(frozen=True)
class Layout:
    """Where a lab's files lie.

    Args:
        root: the lab's directory, absolute.
    """

    root: Path

    @property
    def parameters(self) -> Path:
        """What the lab was made with."""
        return self.root / "lab.json"

    @property
    def slurm_conf(self) -> Path:
        """Slurm's configuration."""
        return self.root / "slurm.conf"

    @property
    def slurmdbd_conf(self) -> Path:
        """The configuration of slurmdbd, who looks for it beside slurm.conf."""
        return self.root / "slurmdbd.conf"

    @property
    def gres_conf(self) -> Path:
        """The nodes' GPUs."""
        return self.root / "gres.conf"

    @property
    def topology_conf(self) -> Path:
        """The switches between the nodes."""
        return self.root / "topology.conf"

    @property
    def cgroup_conf(self) -> Path:
        """How slurmd deals with the kernel's control groups."""
        return self.root / "cgroup.conf"

    @property
    def job_submit(self) -> Path:
        """The script that sees each submission; slurmctld looks for it beside slurm.conf."""
        return self.root / "job_submit.lua"

    @property
    def job_comp(self) -> Path:
        """The script that is told of each end of a job; slurmctld looks for it there, too."""
        return self.root / "jobcomp.lua"

    @property
    def munge(self) -> Path:
        """Directory of munged's key and socket."""
        return self.root / "munge"

    @property
    def munge_socket(self) -> Path:
        """Socket of munged."""
        return self.munge / "munge.socket"

    @property
    def database(self) -> Path:
        """Directory of MariaDB's data."""
        return self.root / "database"

    @property
    def database_scratch(self) -> Path:
        """Directory of MariaDB's temporary files: where labs share one, each deletes the others' as it starts."""
        return self.root / "scratch"

    @property
    def database_socket(self) -> Path:
        """Socket of MariaDB, which listens on nothing else."""
        return self.database / "mariadb.socket"

    @property
    def state(self) -> Path:
        """Directory of slurmctld's state."""
        return self.root / "state"

    @property
    def log(self) -> Path:
        """Directory of the logs and pid files of all daemons but the slurmds."""
        return self.root / "log"

    @property
    def services(self) -> tuple[Path, ...]:
        """Directories of all daemons but the slurmds."""
        return (self.munge, self.database, self.database_scratch, self.state, self.log)

    @property
    def nodes(self) -> Path:
        """Directory of the nodes' directories."""
        return self.root / "nodes"

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
        excess = len(os.fsencode(longest)) - MOST_SOCKET_BYTES
        if excess > 0:
            raise InputError(
                f"{self.root} is {excess} bytes too long for a lab: the paths of its sockets may have "
                f"{MOST_SOCKET_BYTES} bytes.",
                "Choose a shorter directory, for example one in /tmp.",
            )
