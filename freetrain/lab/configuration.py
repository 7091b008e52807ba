"""The texts of a lab's configuration files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from freetrain.lab.layout import LabLayout
from freetrain.lab.options import LabOptions, People

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
    "ReturnToService": "2",
    "MailProg": "/bin/true",
    "MpiDefault": "none",
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
    """Text of slurm.conf.

    Args:
        layout: where the lab's files lie.
        options: what the lab is to be.
        people: who runs it.
        host: this machine's short name, which all nodes share.
    """
    settings = {
        **_FIXED,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": str(options.controller_port),
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
    lines = [f"{key}={value}" for key, value in _overridden(settings, options.settings).items()]
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

    Args:
        options: what the lab is to be; settings that need control groups get Slurm's defaults.
        version: Slurm's, as (24, 5).
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


def _overridden(settings: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """The settings with others in their place; Slurm knows no difference between small and capital letters."""
    replaced = {key.lower() for key in overrides}
    return {key: value for key, value in settings.items() if key.lower() not in replaced} | dict(overrides)


def _preemption(mode: str) -> dict[str, str]:
    if mode == "OFF":
        return {"PreemptType": "preempt/none", "PreemptMode": "OFF"}
    # Only the gang scheduler resumes what was suspended.
    return {
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "SUSPEND,GANG" if mode == "SUSPEND" else mode,
    }


def _accounting(layout: LabLayout, options: LabOptions) -> dict[str, str]:
    if not options.accounting:
        return {"AccountingStorageType": "accounting_storage/none"}
    settings = {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(options.accounting_port),
        "AccountingStoragePass": str(layout.munge_socket),
        "AccountingStorageEnforce": "associations,limits,qos",
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
