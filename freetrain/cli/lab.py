"""``freetrain lab``: a real Slurm on one machine, to try freetrain on."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

import click

from freetrain.cli.helping import group
from freetrain.cli.listing import print_table
from freetrain.cli.options import argument, option
from freetrain.errors import InputError
from freetrain.lab import Lab, LabOptions
from freetrain.showing.words import NOTHING

DIRECTORY_VARIABLE = "FREETRAIN_LAB"


def _default_directory() -> Path:
    # Root's lab is for other accounts, too, and they cannot look into its home.
    return Path("/tmp/freetrain-lab") if os.geteuid() == 0 else Path.home() / ".cache/freetrain/lab"


_directory = option(
    "--dir",
    f"The lab's directory.  [default: ${DIRECTORY_VARIABLE}, else ~/.cache/freetrain/lab; for root "
    "/tmp/freetrain-lab]",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=DIRECTORY_VARIABLE,
    metavar="DIR",
    default=_default_directory,
    show_default=False,
)
_SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of ``freetrain lab up``: the nodes, partitions and settings of the lab."""

    nodes: int = option("--nodes", "Nodes.", default=4)
    cpus: int = option("--cpus", "CPUs that each node claims to have.", default=4)
    gpus: int = option("--gpus", "GPUs that each node claims to have.", default=0)
    gpu_nodes: int | None = option(
        "--gpu-nodes", "How many of the nodes, the last ones, have them [default: all].", type=int
    )
    gpu_type: str = option(
        "--gpu-type",
        "Type of the GPUs, as a100, or several, as a100,h100 [default: none].",
        default="",
        show_default=False,
    )
    exclusive: bool = option(
        "--exclusive/--shared",
        "Whether the partitions give whole nodes only (OverSubscribe=EXCLUSIVE).",
        default=True,
    )
    fake: int = option("--fake", "Imaginary nodes besides, where nothing really runs.", default=0)
    accounting: bool = option("--accounting", "With slurmdbd: sacct, associations, an Operator.")
    base_port: int = option("--port", "First port to use.", default=16_817)
    grace_s: float = option("--grace", "GraceTime of partition freetrain.", default="0")
    nodes_per_leaf: int = option(
        "--nodes-per-leaf",
        "Switches of so many nodes each [default: Slurm knows none].",
        default=0,
        show_default=False,
        metavar="N",
    )
    partitions: tuple[str, ...] = option(
        "--partition",
        "One more partition, as debug='Nodes=n[001-002] PriorityTier=20'; repeatable.",
        metavar="NAME=SETTINGS",
    )
    settings: tuple[str, ...] = option("--set", "A setting of slurm.conf; repeatable.", metavar="KEY=VALUE")
    job_submit: Path | None = option("--job-submit", "A job_submit.lua to install.", type=_SCRIPT)
    job_comp: Path | None = option("--job-comp", "A jobcomp.lua to install.", type=_SCRIPT)


@group("lab")
def lab_group() -> None:
    """A real Slurm on this machine: daemons, accounting, several people, and failures at will."""


@lab_group.command("up", first=("--nodes", "--cpus", "--gpus", "--accounting", "--dir"))
def up_command(directory: Path = _directory, *, options: UpOptions) -> None:
    """Make a lab and start it; one that ended in the same directory makes room."""
    started_s = time.monotonic()
    pairs = {"settings": _pairs("--set", options.settings)} | {
        "partitions": _pairs("--partition", options.partitions)
    }
    lab = Lab.up(directory, LabOptions(**asdict(options) | pairs | {"grace_s": ceil(options.grace_s)}))
    _say_what_next(lab, time.monotonic() - started_s)


@lab_group.command("down")
def down_command(directory: Path = _directory) -> None:
    """Cancel all jobs and stop all daemons; the logs stay."""
    lab = Lab.find(directory)
    lab.down()
    click.echo(f"The lab in {lab.directory} is down.")


@lab_group.command("env")
def env_command(directory: Path = _directory) -> None:
    """Print what makes Slurm's commands mean the lab: for eval."""
    for name, value in Lab.find(directory).environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@lab_group.command("status")
def status_command(directory: Path = _directory) -> None:
    """Show what of the lab runs."""
    status = Lab.find(directory).status()
    absent = [node for node, runs in status.nodes.items() if not runs]
    rows = [(name, "runs" if runs else "does not run") for name, runs in status.daemons.items()]
    rows.append(("slurmd", f"{len(status.nodes) - len(absent)} of {len(status.nodes)}"))
    if absent:
        rows.append(("nodes without", " ".join(absent)))
    states = ", ".join(f"{count:,} {state}" for state, count in status.states.items())
    print_table(("daemon", "state"), [*rows, ("nodes in Slurm", states or NOTHING)], header=False)


@lab_group.command("crash")
def crash_command(node: str = argument(), directory: Path = _directory) -> None:
    """Let a node vanish at once, with all that runs there."""
    Lab.find(directory).crash(node)


@lab_group.command("node")
def node_command(
    node: str = argument(),
    action: str = argument(type=click.Choice(["start"])),
    directory: Path = _directory,
) -> None:
    """Start a node that crashed."""
    Lab.find(directory).start_node(node)


@lab_group.command("ctld")
def ctld_command(
    action: str = argument(type=click.Choice(["start", "stop", "kill"])), directory: Path = _directory
) -> None:
    """Stop the controller, kill it, or start it again."""
    lab = Lab.find(directory)
    {"start": lab.start_controller, "stop": lab.stop_controller, "kill": lab.kill_controller}[action]()


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise InputError(f"{option} {text}: it has the form KEY=VALUE.")
        found[key.strip()] = value.strip()
    return found


def _say_what_next(lab: Lab, seconds: float) -> None:
    where = "" if lab.directory == _default_directory() else f" --dir {shlex.quote(str(lab.directory))}"
    click.echo(f"A Slurm of {len(lab.node_names)} nodes is up in {lab.directory} after {seconds:.1f} s.\n")
    print_table(
        ("command", "meaning"),
        [
            (f'eval "$(freetrain lab env{where})"', "let Slurm's commands mean it"),
            (f"freetrain lab status{where}", "see what runs"),
            (f"freetrain lab crash {lab.node_names[-1]}{where}", "lose a node"),
            (f"freetrain lab down{where}", "end it"),
        ],
        header=False,
    )
    accounts = lab.users
    if len(set(accounts.values())) == 1:
        click.echo("\nYou play all parts: as root, a lab has several people.")
        return
    click.echo(
        f"\nalice is the account {accounts['alice']}, bob is {accounts['bob']}, freetrain's own is "
        f"{accounts['daemon']}; to be alice:"
    )
    alice = accounts["alice"]
    click.echo(f"cd /tmp && setpriv --reuid={alice} --regid={alice} --clear-groups sbatch --wrap 'sleep 60'")
