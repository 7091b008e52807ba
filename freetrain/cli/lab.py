"""``freetrain lab``: a real Slurm on one machine, to try freetrain on."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Any

import click

from freetrain.cli.helping import Group
from freetrain.cli.listing import print_table
from freetrain.cli.options import Duration
from freetrain.errors import InputError
from freetrain.lab import Lab, LabOptions
from freetrain.showing.words import NOTHING

DIRECTORY_VARIABLE = "FREETRAIN_LAB"


def _default_directory() -> Path:
    # Root's lab is for other accounts, too, and they cannot look into its home.
    return Path("/tmp/freetrain-lab") if os.geteuid() == 0 else Path.home() / ".cache/freetrain/lab"


_directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=DIRECTORY_VARIABLE,
    metavar="DIR",
    default=_default_directory,
    show_default=False,
    help=f"The lab's directory.  [default: ${DIRECTORY_VARIABLE}, else ~/.cache/freetrain/lab; for root "
    "/tmp/freetrain-lab]",
)
_SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("lab", cls=Group)
def lab_group() -> None:
    """A real Slurm on this machine: daemons, accounting, several people, and failures at will."""


@lab_group.command("up", first=("--nodes", "--cpus", "--gpus", "--accounting", "--dir"))
@_directory_option
@click.option("--nodes", default=4, help="Nodes.")
@click.option("--cpus", default=4, help="CPUs that each node claims to have.")
@click.option("--gpus", default=0, help="GPUs that each node claims to have.")
@click.option("--gpu-nodes", type=int, help="How many of the nodes, the last ones, have them [default: all].")
@click.option(
    "--gpu-type",
    default="",
    show_default=False,
    help="Type of the GPUs, as a100, or several, as a100,h100 [default: none].",
)
@click.option(
    "--exclusive/--shared",
    default=True,
    help="Whether the partitions give whole nodes only (OverSubscribe=EXCLUSIVE).",
)
@click.option("--fake", default=0, help="Imaginary nodes besides, where nothing really runs.")
@click.option("--accounting", is_flag=True, help="With slurmdbd: sacct, associations, an Operator.")
@click.option("--port", "base_port", default=16_817, help="First port to use.")
@click.option("--grace", "grace_s", type=Duration(), default="0", help="GraceTime of partition freetrain.")
@click.option(
    "--nodes-per-leaf",
    default=0,
    show_default=False,
    metavar="N",
    help="Switches of so many nodes each [default: Slurm knows none].",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME=SETTINGS",
    help="One more partition, as debug='Nodes=n[001-002] PriorityTier=20'; repeatable.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of slurm.conf; repeatable.")
@click.option("--job-submit", type=_SCRIPT, metavar="FILE", help="A job_submit.lua to install.")
@click.option("--job-comp", type=_SCRIPT, metavar="FILE", help="A jobcomp.lua to install.")
def up_command(
    directory: Path, settings: tuple[str, ...], partitions: tuple[str, ...], grace_s: float, **options: Any
) -> None:
    """Make a lab and start it; one that ended in the same directory makes room."""
    started_s = time.monotonic()
    options |= {"settings": _pairs("--set", settings), "partitions": _pairs("--partition", partitions)}
    lab = Lab.up(directory, LabOptions(grace_s=ceil(grace_s), **options))
    _say_what_next(lab, time.monotonic() - started_s)


@lab_group.command("down")
@_directory_option
def down_command(directory: Path) -> None:
    """Cancel all jobs and stop all daemons; the logs stay."""
    lab = Lab.find(directory)
    lab.down()
    click.echo(f"The lab in {lab.directory} is down.")


@lab_group.command("env")
@_directory_option
def env_command(directory: Path) -> None:
    """Print what makes Slurm's commands mean the lab: for eval."""
    for name, value in Lab.find(directory).environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@lab_group.command("status")
@_directory_option
def status_command(directory: Path) -> None:
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
@click.argument("node")
@_directory_option
def crash_command(node: str, directory: Path) -> None:
    """Let a node vanish at once, with all that runs there."""
    Lab.find(directory).crash(node)


@lab_group.command("node")
@click.argument("node")
@click.argument("action", type=click.Choice(["start"]))
@_directory_option
def node_command(node: str, action: str, directory: Path) -> None:
    """Start a node that crashed."""
    Lab.find(directory).start_node(node)


@lab_group.command("ctld")
@click.argument("action", type=click.Choice(["start", "stop", "kill"]))
@_directory_option
def ctld_command(action: str, directory: Path) -> None:
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
