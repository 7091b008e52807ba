"""Options of a lab, and the accounts that play parts in it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from freetrain.errors import InputError

PREEMPT_MODES = ("REQUEUE", "CANCEL", "SUSPEND", "OFF")
MAX_NODES = 9999
MAX_IMAGINARY_NODES = 99_999
FIRST_PORT, LAST_PORT = 1024, 65_535
# Settings that a lab must choose itself, or it does not find its daemons again.
_OWN_SETTINGS = {
    "authinfo", "authtype", "clustername", "include", "nodename", "partitionname", "slurmctldhost",
    "slurmctldport", "slurmdspooldir", "slurmduser", "slurmuser", "statesavelocation",
}  # fmt: skip
_OWN_PARTITIONS = ("main", "freetrain")
_SCRIPTS = ("job_submit", "job_comp")
_SERVICE = "slurm"
# Accounts that every Debian has, so that /etc/passwd stays as it is.
_ROLES = {"alice": "news", "bob": "games", "daemon": "backup"}


@dataclass(frozen=True)
class LabOptions:
    """Options of a lab."""

    nodes: int = 4  # nodes with a slurmd of their own
    cpus: int = 4  # CPUs that each node claims to have, whatever the machine has
    gpus: int = 0  # GPUs (gres gpu) that each node claims to have; there are no devices behind them
    gpu_nodes: int | None = None  # how many nodes, the last ones, have them; None: all, and the imaginary ones
    gpu_type: str = ""  # of the GPUs, as a100; as a100,h100: nodes that follow each other have the same
    exclusive: bool = True  # whether the partitions give whole nodes only (OverSubscribe=EXCLUSIVE)
    fake: int = 0  # imaginary nodes, which show as idle; jobs there count as running, but nothing runs
    accounting: bool = False  # whether there is a slurmdbd: sacct, associations, and an Operator
    base_port: int = 16_817  # of slurmctld; slurmdbd has the next one, slurmds those from the tenth after it
    grace_s: int = 0  # seconds between the warning and the end of a preempted job of partition freetrain
    preempt_mode: str = "REQUEUE"  # what happens to preempted jobs of partition freetrain
    nodes_per_leaf: int = 0  # how many nodes share a switch below the top one; 0: Slurm knows no switches
    partitions: Mapping[str, str] = field(default_factory=dict)  # further ones, as {"debug": "Nodes=n[001-002]"}
    settings: Mapping[str, str] = field(default_factory=dict)  # of slurm.conf, in place of the lab's
    job_submit: Path | None = None  # a job_submit.lua to install
    job_comp: Path | None = None  # a jobcomp.lua to install

    def __post_init__(self) -> None:
        _require(1 <= self.nodes <= MAX_NODES, f"A lab has between 1 and {MAX_NODES} nodes, not {self.nodes}.")
        _require(
            0 <= self.fake <= MAX_IMAGINARY_NODES,
            f"A lab has at most {MAX_IMAGINARY_NODES} imaginary nodes, not {self.fake}.",
        )
        _require(self.cpus >= 1, f"A node has at least one CPU, not {self.cpus}.")
        _require(self.gpus >= 0 and self.grace_s >= 0, "GPUs and the grace time cannot be negative.")
        _require(self.nodes_per_leaf >= 0, f"A leaf has no {self.nodes_per_leaf} nodes.")
        _require(
            self.gpu_nodes is None or 0 <= self.gpu_nodes <= self.nodes,
            f"Between 0 and {self.nodes} nodes can have GPUs, not {self.gpu_nodes}.",
        )
        for kind in self.gpu_types:
            _require(kind.isalnum(), f"{kind!r} is not a type of GPUs.")
        _require(
            len(self.gpu_types) <= len(self.gpu_node_names),
            f"There is no node for each of {self.gpu_type}: {len(self.gpu_node_names)} nodes have GPUs.",
        )
        for name, value in self.partitions.items():
            _require(
                name.isidentifier() and name not in _OWN_PARTITIONS,
                f"{name!r} is not a name for one more partition.",
            )
            _require("\n" not in value, f"{name}={value} is not one line.")
        last = self.node_port(self.nodes - 1)
        _require(
            self.base_port >= FIRST_PORT and last <= LAST_PORT,
            f"Ports {self.base_port} to {last} are not all within {FIRST_PORT} to {LAST_PORT}.",
        )
        _require(
            self.preempt_mode in PREEMPT_MODES,
            f"There is no preemption mode {self.preempt_mode}; there are {', '.join(PREEMPT_MODES)}.",
        )
        for key, value in self.settings.items():
            _require(key.lower() not in _OWN_SETTINGS, f"A lab chooses {key} itself.")
            _require(key.isalnum() and "\n" not in value, f"{key}={value} is no setting of one line.")

    @property
    def accounting_port(self) -> int:
        """Port of slurmdbd; the base port is slurmctld's."""
        return self.base_port + 1

    def node_port(self, index: int) -> int:
        """Port of a node's slurmd; the first node's index is 0."""
        return self.base_port + 10 + index

    @property
    def ports(self) -> tuple[int, ...]:
        """All ports that the lab listens on, all of them on the loopback address or the whole host."""
        accounting = (self.accounting_port,) if self.accounting else ()
        return (self.base_port, *accounting, *(self.node_port(index) for index in range(self.nodes)))

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes that have a slurmd."""
        width = max(3, len(str(self.nodes)))
        return tuple(f"n{number:0{width}}" for number in range(1, self.nodes + 1))

    @property
    def gpu_node_names(self) -> tuple[str, ...]:
        """Names of those among them that have GPUs."""
        count = self.nodes if self.gpu_nodes is None else self.gpu_nodes
        return self.node_names[self.nodes - count :] if self.gpus else ()

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The types of GPUs."""
        return tuple(filter(None, self.gpu_type.split(",")))

    @property
    def gpu_kinds(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Types of GPUs, empty for none, with the names of the nodes that have them."""
        names, kinds = self.gpu_node_names, self.gpu_types or ("",)
        bounds = [len(names) * number // len(kinds) for number in range(len(kinds) + 1)]
        pairs = zip(kinds, pairwise(bounds), strict=True)
        return tuple((kind, names[first:last]) for kind, (first, last) in pairs if first < last)

    @property
    def fake_node_names(self) -> tuple[str, ...]:
        """Names of the imaginary nodes."""
        return tuple(f"f{number:05}" for number in range(1, self.fake + 1))

    def to_json(self) -> dict[str, Any]:
        """The options as a document."""
        scripts = {name: str(path) if (path := getattr(self, name)) else None for name in _SCRIPTS}
        return asdict(self) | {"partitions": dict(self.partitions), "settings": dict(self.settings)} | scripts

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> LabOptions:
        """The options of a document."""
        scripts = {name: Path(path) if (path := document[name]) else None for name in _SCRIPTS}
        return cls(**document | scripts)


def _require(fine: bool, otherwise: str) -> None:
    if not fine:
        raise InputError(otherwise)


@dataclass(frozen=True)
class People:
    """The accounts that run a lab."""

    service: str  # account of all daemons but the slurmds (SlurmUser)
    nodes: str  # account of the slurmds (SlurmdUser); jobs of other users need root
    roles: Mapping[str, str]  # accounts of the people: alice and bob, and daemon, which is freetrain's

    @classmethod
    def of_this_process(cls) -> People:
        """Several people, as root; otherwise the present user plays all of them."""
        if os.geteuid() != 0:
            me = pwd.getpwuid(os.geteuid()).pw_name
            return cls(me, me, dict.fromkeys(_ROLES, me))
        known = {entry.pw_name for entry in pwd.getpwall()}
        missing = [account for account in (_SERVICE, *_ROLES.values()) if account not in known]
        if missing:
            raise InputError(f"A lab needs the system's accounts {', '.join(missing)}, which are not there.")
        return cls(_SERVICE, "root", _ROLES)

    @property
    def service_ids(self) -> tuple[int, int]:
        """User and group of the service account."""
        entry = pwd.getpwnam(self.service)
        return entry.pw_uid, entry.pw_gid

    @property
    def as_service(self) -> dict[str, Any]:
        """Arguments that let subprocess run a command as the service account."""
        if os.geteuid() != 0:
            return {}
        user, group = self.service_ids
        # No further groups: subprocess would leave root's own.
        return {"user": user, "group": group, "extra_groups": []}
