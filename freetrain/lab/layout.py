"""The lab's files: where they lie, how its directory is made and emptied, and the texts of its configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from freetrain.errors import InputError, StateError, explained
from freetrain.lab.options import LabOptions, People

MAX_SOCKET_BYTES = 107
"""Longest path that Linux takes for a Unix socket, in bytes."""

_PLAIN = re.compile(r"[A-Za-z0-9_.+@/-]+")
# slurmstepd's socket is named by node, job and step, which are numbers of 32 bits.
_LONGEST_STEP = "_4294967295.4294967295"
_FORMAT = "freetrain-lab/1"
_OTHERS_MAY_WRITE = 0o022
_ALL_MAY_PASS = 0o111


class LabLayout:
    """Paths of a lab's files, all below one directory.

    Attributes:
        parameters: file of the options that the lab was made with.
        slurm_conf: Slurm's configuration; slurmdbd, slurmctld and slurmd look for theirs beside it.
        job_comp: the script that slurmctld calls at each end of a job.
        database_socket: the socket of MariaDB, which listens on nothing else.
        log: directory of the logs and pid files of all daemons but the slurmds.
        services: directories of all daemons but the slurmds.
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
    for earlier in (*layout.services, layout.nodes):
        if earlier.exists():
            shutil.rmtree(earlier)
    configuration = (layout.slurm_conf, layout.slurmdbd_conf, layout.gres_conf, layout.cgroup_conf)
    for file in (*configuration, layout.topology_conf, layout.job_submit, layout.job_comp):
        file.unlink(missing_ok=True)
    document = {"format": _FORMAT, "user": os.geteuid(), "users": dict(people.roles), "options": options.to_json()}
    layout.parameters.write_text(json.dumps(document, indent=2) + "\n")
    for directory in layout.services:
        directory.mkdir(mode=0o755)
        os.chown(directory, *people.service_ids)
    for private in (layout.state, layout.database, layout.database_scratch):
        private.chmod(0o700)
    for name in options.node_names:
        layout.node(name).mkdir(mode=0o755, parents=True)
    for gpu in layout.gpus(options.gpus):
        gpu.touch()


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
    """Make the directory, or take one that is this user's alone."""
    with explained(f"No lab can be made in {root}"):
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = root.stat()
    # Another user's links and files could lead the daemons astray.
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
        raise InputError(f"{root} is not yours alone to write to.", "Choose another directory with --dir.")


def _require_passable(root: Path, people: People) -> None:
    """Complain where a directory on the way is closed to other accounts; munged wants it open to all."""
    if people.nodes != people.service:
        closed = [parent for parent in root.parents if parent.stat().st_mode & _ALL_MAY_PASS != _ALL_MAY_PASS]
        if closed:
            raise InputError(
                f"{root} is of no use to other accounts, because {closed[-1]} is closed to them.",
                "Choose another directory, for example in /tmp, or open that one: chmod a+x.",
            )


ACCOUNT = "ml"
CLUSTER = "lab"

_FIXED = {
    "ClusterName": CLUSTER,
    "AuthType": "auth/munge",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "info",
    "LogTimeFormat": "iso8601_ms",
    # The nodes have what the configuration says, not what the machine has.
    "SlurmdParameters": "config_overrides",
    # A node that comes back serves again, whatever made it DOWN.
    "ReturnToService": "2",
    # slurmctld complains where it finds no program for mails.
    "MailProg": "/bin/true",
    "MpiDefault": "none",
    # These three do without control groups, which a container may not make.
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/linux",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "bf_continue,bf_interval=30,bf_window=10080,bf_resolution=60",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "JobRequeue": "1",
    "KillWait": "30",
    "MinJobAge": "300",
}
_MEMORY_MB = 1000
_CGROUPS_CAN_BE_DISABLED = (24, 5)


def slurm_conf(layout: LabLayout, options: LabOptions, people: People, host: str) -> str:
    """Text of slurm.conf; ``host`` is this machine's short name, which all nodes share."""
    settings = {
        **_FIXED,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": str(options.base_port),
        "SlurmUser": people.service,
        "SlurmdUser": people.nodes,
        "AuthInfo": f"socket={layout.munge_socket}",
        "StateSaveLocation": str(layout.state),
        "SlurmctldPidFile": str(layout.log / "slurmctld.pid"),
        "SlurmctldLogFile": str(layout.log / "slurmctld.log"),
        "SlurmdSpoolDir": f"{layout.nodes}/%n",
        "SlurmdPidFile": f"{layout.nodes}/%n/slurmd.pid",
        # slurmd and slurmstepd work in the directory of the log: it says whose they are.
        "SlurmdLogFile": f"{layout.nodes}/%n/slurmd.log",
        **_preemption(options.preempt_mode),
        **_accounting(layout, options),
    }
    if options.fake:
        # The controller asks each by itself: a tree of messages all to one slurmd would drown it.
        settings["TreeWidth"] = "65533"
    if options.gpus:
        settings["GresTypes"] = "gpu"
    if options.nodes_per_leaf:
        settings["TopologyPlugin"] = "topology/tree"
    if options.job_submit:
        settings["JobSubmitPlugins"] = "lua"
    if options.job_comp:
        settings["JobCompType"] = "jobcomp/lua"
    # Slurm knows no difference between small and capital letters.
    replaced = {key.lower() for key in options.settings}
    kept = {key: value for key, value in settings.items() if key.lower() not in replaced}
    lines = [f"{key}={value}" for key, value in (kept | dict(options.settings)).items()]
    return "\n".join([*lines, *_node_lines(options, host), *_partition_lines(options)]) + "\n"


def slurmdbd_conf(layout: LabLayout, options: LabOptions, people: People) -> str:
    """Text of slurmdbd.conf; the database knows the service account by its socket, so there is no password."""
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "DbdHost": "localhost",
        "DbdAddr": "127.0.0.1",
        "DbdPort": str(options.accounting_port),
        "SlurmUser": people.service,
        "DebugLevel": "info",
        "LogFile": str(layout.log / "slurmdbd.log"),
        "PidFile": str(layout.log / "slurmdbd.pid"),
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": people.service,
        "StorageLoc": "slurm",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def gres_conf(layout: LabLayout, options: LabOptions) -> str:
    """Text of gres.conf: a GPU is a file, which need not be a device; without one, slurmd does not report it."""
    everywhere = options.gpu_nodes is None and len(options.gpu_types) < 2
    lines = []
    for kind, names in options.gpu_kinds:
        where, of_type = "" if everywhere else f"NodeName={_span(names)} ", f" Type={kind}" if kind else ""
        lines += [f"{where}Name=gpu{of_type} File={gpu}\n" for gpu in layout.gpus(options.gpus)]
    return "".join(lines)


def topology_conf(options: LabOptions) -> str:
    """Text of topology.conf: nodes that follow each other share a leaf, and one switch is above all leaves."""
    names, count = (*options.node_names, *options.fake_node_names), options.nodes_per_leaf
    leaves = [names[first : first + count] for first in range(0, len(names), count)]
    lines = [f"SwitchName=leaf{number} Nodes={','.join(nodes)}\n" for number, nodes in enumerate(leaves, 1)]
    return "".join((*lines, f"SwitchName=top Switches=leaf[1-{len(leaves)}]\n"))


def cgroup_conf(options: LabOptions, version: tuple[int, int]) -> str:
    """Text of cgroup.conf: no control groups, so that a lab runs wherever it may not make any.

    Settings that need control groups get Slurm's defaults; ``version`` is Slurm's, as (24, 5).
    """
    if any("cgroup" in value for value in options.settings.values()):
        return ""
    # Older ones must have a plug-in; this one does nothing before it is used.
    return f"CgroupPlugin={'disabled' if version >= _CGROUPS_CAN_BE_DISABLED else 'cgroup/v1'}\n"


def write_private(path: Path, text: str | bytes, owner: tuple[int, int], mode: int = 0o600) -> None:
    """Write a file that from its first moment is no one else's to read."""
    content = text.encode() if isinstance(text, str) else text
    path.touch(0o600, exist_ok=False)
    path.write_bytes(content)
    os.chown(path, *owner)
    path.chmod(mode)


def _preemption(mode: str) -> dict[str, str]:
    if mode == "OFF":
        return {"PreemptType": "preempt/none", "PreemptMode": "OFF"}
    # Only the gang scheduler resumes what was suspended.
    return {"PreemptType": "preempt/partition_prio", "PreemptMode": "SUSPEND,GANG" if mode == "SUSPEND" else mode}


def _accounting(layout: LabLayout, options: LabOptions) -> dict[str, str]:
    if not options.accounting:
        return {"AccountingStorageType": "accounting_storage/none"}
    settings = {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(options.accounting_port),
        "AccountingStoragePass": str(layout.munge_socket),
        "AccountingStorageEnforce": "associations,limits,qos",
        # freetrain's tags and verdicts are comments of jobs, which sacct would not have.
        "AccountingStoreFlags": "job_comment",
    }
    return settings | ({"AccountingStorageTRES": "gres/gpu"} if options.gpus else {})


def _node_lines(options: LabOptions, host: str) -> list[str]:
    common = f"NodeAddr=127.0.0.1 NodeHostname={host} CPUs={options.cpus} RealMemory={_MEMORY_MB}"
    without = options.node_names[: options.nodes - len(options.gpu_node_names)]
    gres = [
        f" Gres=gpu:{kind}:{options.gpus}" if kind else f" Gres=gpu:{options.gpus}"
        for kind, _ in options.gpu_kinds
    ]
    lines, first = [], 0
    for names, has in zip((without, *(names for _, names in options.gpu_kinds)), ("", *gres), strict=True):
        if names:
            # All nodes are one host, so each slurmd listens on a port of its own.
            ports = f"{options.node_port(first)}-{options.node_port(first + len(names) - 1)}"
            lines.append(f"NodeName={_span(names)} Port=[{ports}] {common}{has} State=UNKNOWN")
            first += len(names)
    if options.fake:
        # Slurm believes IDLE, and the first node answers its pings for all of them: so they stay idle.
        has = gres[0] if gres and options.gpu_nodes is None else ""
        fake = f"f[00001-{options.fake:05}]"
        lines.append(f"NodeName={fake} Port={options.node_port(0)} {common}{has} State=IDLE")
    return lines


def _span(names: Sequence[str]) -> str:
    """Consecutive nodes, as Slurm writes them."""
    return f"n[{names[0][1:]}-{names[-1][1:]}]"


def _partition_lines(options: LabOptions) -> list[str]:
    whole = " OverSubscribe=EXCLUSIVE" if options.exclusive else ""
    further = f"DefaultTime=1:00:00{whole} State=UP"
    common = f"Nodes=ALL {further}"
    grace = f" GraceTime={options.grace_s}" if options.grace_s else ""
    return [
        # preempt/partition_prio: jobs of a higher tier preempt those of a lower one.
        f"PartitionName=main Default=YES MaxTime=7-0 PriorityTier=10 PreemptMode=OFF {common}",
        f"PartitionName=freetrain MaxTime=1-0 PriorityTier=1 PreemptMode={options.preempt_mode}{grace} {common}",
        *(f"PartitionName={name} {_completed(line)} {further}" for name, line in options.partitions.items()),
    ]


def _completed(line: str) -> str:
    """A partition's settings; what they leave out is as of partition main."""
    given = {word.partition("=")[0].lower() for word in line.split()}
    usual = {"Nodes": "ALL", "MaxTime": "7-0", "PriorityTier": "10", "PreemptMode": "OFF"}
    return " ".join(
        [*line.split(), *(f"{key}={value}" for key, value in usual.items() if key.lower() not in given)]
    )
