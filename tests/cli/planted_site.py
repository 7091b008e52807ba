"""A site without mistakes, in which some can be planted, and whose admin types what 'config check' says."""

from __future__ import annotations

import re
import shlex
import time
import tomllib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.commands import Command
from freetrain.slurm.queries import ASSOCIATION_FIELDS, JOB_FIELDS, QOS_FIELDS, SEPARATOR

RECORDED = Path(__file__).parents[1] / "slurm" / "recorded"
MAIN, FREETRAIN, DEBUG = (RECORDED / "layout_22.05.txt").read_text().splitlines()
NODE = "NodeName={} CPUAlloc=0 CPUTot=4 RealMemory=1000 State=IDLE Partitions=main,freetrain,debug \n"
NOTHING = dict.fromkeys(QOS_FIELDS, "") | {
    "PreemptMode": "cluster",
    "GraceTime": "00:00:00",
    "UsageFactor": "1.000000",
}

LIMITED = {"GrpTRES": "node=4", "MaxSubmitPU": "1000"}


class Kind(StrEnum):
    """How a site preempts."""

    TIERS = "tiers"
    """By tiers of partitions."""
    QOS = "qos"
    """By QOS, with a partition of freetrain's own."""
    SHARED = "shared"
    """By QOS, with fragments in the site's own partition."""


class PlantedSite(CommandLine):
    """Slurm's commands, with the answers of a site that is as it should be.

    Args:
        directory: where its freetrain.toml is.
        kind: how it preempts.
        clock_s: that of its controller, and of whoever asks.
    """

    def __init__(self, directory: Path, kind: Kind = Kind.TIERS, clock_s: Callable[[], float] = time.time) -> None:
        super().__init__(clock_s=clock_s)
        by_qos = kind is not Kind.TIERS
        self.path = directory / "freetrain.toml"
        self.config = (RECORDED / "config_22.05.txt").read_text().replace("= SUSPEND,GANG", "= REQUEUE")
        self.toml = ""
        self.clock_ahead_s = 0
        self.people = {"freetrain": "Operator", "alice": "None", "bob": "None"}
        self.jobs = ""
        self.gpu_nodes: list[str] = []
        self.reservations = ""
        fragments = "AllowQos=scavenger" if by_qos else "AllowQos=ALL"
        self.partitions = {
            "main": MAIN,
            "freetrain": FREETRAIN.replace("AllowQos=scavenger,normal", fragments)
            .replace("QoS=scavenger", "QoS=scavenger TRESBillingWeights=CPU=0.0")
            .replace("PreemptMode=OFF", "PreemptMode=REQUEUE"),
            "debug": DEBUG.replace("State=INACTIVE", "State=UP").replace("DenyAccounts=phys", "AllowAccounts=ALL"),
        }
        self.qos = {
            "normal": NOTHING | {"Name": "normal"},
            "scavenger": NOTHING
            | {"Name": "scavenger", "PreemptMode": "requeue", "GrpTRES": "node=4", "MaxSubmitPU": "1000"},
        }
        if by_qos:
            self.conf("PreemptType=preempt/qos")
            self.partitions["main"] = MAIN.replace("AllowQos=ALL", "DenyQos=scavenger")
            self.qos["normal"]["Preempt"] = "scavenger"
        self.slurm = {"backend": "cli"}
        self.associations = [
            association("root"),
            association("ml", parent="root", qos="normal,scavenger"),
            association("ml", "alice", qos="normal,scavenger"),
        ]
        if kind is Kind.SHARED:
            del self.partitions["freetrain"]
            self.partitions["main"] = MAIN
            self.qos["scavenger"]["UsageFactor"] = "0.000000"
            self.slurm |= {"partition": "main", "qos": "scavenger"}

    def conf(self, line: str) -> None:
        """Give slurm.conf another value."""
        key, value = line.split("=", 1)
        self.config, count = re.subn(rf"(?m)^{key} *= .*$", f"{key:<23} = {value}", self.config)
        if not count:
            self.config += f"{key:<23} = {value}\n"

    def partition(self, name: str, *changes: str) -> None:
        """Change fields of a partition, as ``scontrol update`` would."""
        for change in changes:
            key, value = change.split("=", 1)
            new = rf"\1={value or '(null)'}"  # Slurm shows the key as it likes to
            line, count = re.subn(rf"(?i)(?<= )({key})=\S+", new, self.partitions[name])
            self.partitions[name] = line if count else f"{line} {change}"

    def new_partition(self, line: str) -> None:
        """A line of slurm.conf that makes a partition, and what Slurm shows of it then."""
        given = dict(word.split("=", 1) for word in line.split())
        name = given["PartitionName"]
        shown = FREETRAIN.replace("AllowQos=scavenger,normal", "AllowQos=ALL").replace("QoS=scavenger", "QoS=N/A")
        self.partitions[name] = shown.replace("=freetrain ", f"={name} ", 1)
        self.partition(name, *(f"{key}={value}" for key, value in given.items() if key != "PartitionName"))

    def associate(self, account: str, user: str | None = None, **fields: str) -> None:
        """Change an account with all its users, or a user in it."""
        for row in self.associations:
            if row["Account"] == account and user in (None, row["User"]):
                row.update(fields)

    def write(self) -> None:
        """Put the settings into the file; those of the directories, too, unless they are given."""
        text = "" if "state" in _tables(self.toml) else "[state]\ndirectory = '/nonexistent/freetrain'\n"
        settings = "".join(f"{key} = '{value}'\n" for key, value in self.slurm.items())
        text += "" if "slurm" in _tables(self.toml) else f"[slurm]\n{settings}"
        self.path.write_text(text + self.toml)

    def type(self, lines: list[tuple[str, str]]) -> None:
        """Do what is said, each line where it belongs; the planted settings are replaced."""
        settings = "\n".join(line for place, line in lines if place == "freetrain.toml")
        if set(_tables(settings)) == {"slurm"}:
            self.slurm |= tomllib.loads(settings)["slurm"]
            self.toml = self.toml if "slurm" not in _tables(self.toml) else ""
        elif settings:
            self.toml = settings + "\n"
        for place, line in lines:
            if place == "slurm.conf" and line.startswith("PartitionName=") and "…" not in line:
                self.new_partition(line)
            elif place == "slurm.conf" and not line.startswith("PartitionName="):
                self.conf(line)
            elif place == "run":
                self._run(shlex.split(line))

    def _run(self, command: list[str]) -> None:  # noqa: C901 (one case a command)
        match command:
            case ("scontrol", "update", name, change):
                self.partition(name.partition("=")[2], change)
            case ("scontrol", "delete", _):
                self.reservations = ""
            case ("timedatectl", "set-ntp", "true"):
                self.clock_ahead_s = 0
            case ("sacctmgr", "-i", "add", "qos", name):
                self.qos[name] = NOTHING | {"Name": name}
            case ("sacctmgr", "-i", "modify", "qos", name, "set", change):
                key, value = re.split(r"[+-]?=", change, maxsplit=1)
                key = key.replace("SubmitJobsPU", "SubmitPU")
                left = [part for part in self.qos[name][key].split(",") if f"{part.partition('=')[0]}=-1" != value]
                gone = "-=" in change or value.endswith("-1")
                self.qos[name][key] = ",".join(left if "=-1" in value else []) if gone else value
            case ("sacctmgr", "-i", "modify", "account", name, "set", "DefaultQOS=-1"):
                self.associate(name, DefaultQOS="")
            case ("sacctmgr", "-i", "modify", "user", name, "where", account, "set", "DefaultQOS=-1"):
                self.associate(account.partition("=")[2], name, DefaultQOS="")
            case ("sacctmgr", "-i", "modify", "account", names, "set", change) if change.startswith("QOS+="):
                for name in names.split(","):
                    self.associate(name, QOS=f"normal,{change.removeprefix('QOS+=')}")
            case ("sacctmgr", "-i", "add", "user", name, _):
                self.people[name] = "None"
            case ("sacctmgr", "-i", "modify", "user", name, "set", change):
                self.people[name] = change.partition("=")[2]
            case _:
                raise AssertionError(f"not a command that mends anything: {command}")

    def _ask(self, command: Command, stdin: str = "") -> str:  # noqa: C901 (one case a command)
        match command:
            case ("squeue", *_, columns):
                return f"{columns}\n" + self.jobs.replace("MARK", columns.partition(SEPARATOR)[0])
            case (*_, "config"):
                return re.sub(r"as of \d+", f"as of {int(self._clock_s()) - self.clock_ahead_s}", self.config)
            case (*_, "partition"):
                return "".join(f"{line}\n" for line in self.partitions.values())
            case (*_, "nodes"):
                plain = "".join(NODE.format(f"n{number:03}") for number in range(1, 5))
                return plain + "".join(NODE.format(f"{name} Gres=gpu:4") for name in self.gpu_nodes)
            case (*_, "reservation"):
                return self.reservations or "No reservations in the system\n"
            case ("sbatch", *_, "--comment=freetrain-check"):
                return "77\n"
            case ("scontrol", "update", "JobId=77", *_) | ("scancel", "77"):
                return ""
            case ("sacctmgr", _, _, "show", "qos", fields):
                names = fields.removeprefix("format=").split(",")
                return "".join(f"{'|'.join(qos[name] for name in names)}\n" for qos in self.qos.values())
            case ("sacctmgr", _, _, "show", "assoc", "cluster=lab", _):
                return "".join(
                    f"{'|'.join(row[name] for name in ASSOCIATION_FIELDS)}\n" for row in self.associations
                )
            case ("sacctmgr", _, _, "show", "user", "format=User"):
                return "".join(f"{name}\n" for name in self.people)
            case ("sacctmgr", _, _, "show", "account", _):
                return "ml\nphysics\n"
            case ("sacctmgr", _, _, "show", "user", name, *_):
                return f"{self.people[name]}|\n" if name in self.people else ""
        raise AssertionError(f"not asked in a check: {command}")


def association(
    account: str, user: str = "", parent: str = "", qos: str = "normal", **fields: str
) -> dict[str, str]:
    """An account, or a user in it, as accounting shows it."""
    row = dict.fromkeys(ASSOCIATION_FIELDS, "")
    return row | {"Account": account, "User": user, "ParentName": parent, "QOS": qos} | fields


def waiting_trainer(user: str, account: str) -> str:
    """The record of a tagged job in freetrain's partition."""
    fields = dict.fromkeys(JOB_FIELDS, "") | {"%i": "7_0", "%F": "7", "%u": user, "%a": account, "%P": "freetrain"}
    fields |= {"%T": "PENDING", "%V": "1", "%l": "1:00:00", "%D": "1", "%Q": "0", "%k": "freetrain:min=1"}
    return SEPARATOR.join(("MARK", *fields.values())) + "\n"


def _tables(toml: str) -> set[str]:
    try:
        return set(tomllib.loads(toml))
    except tomllib.TOMLDecodeError:
        return {"slurm", "state"}
