"""Programs in the place of Slurm's commands, which the daemon finds first; each fails as a file says."""

from __future__ import annotations

import shutil
from pathlib import Path

NAMES = ("scontrol", "squeue", "sinfo", "sbatch", "scancel", "sacct", "sacctmgr", "sdiag")
SEPARATOR = "\x1f"

# A fault lasts until its file is removed; what ends its caller does so once, or none would live again.
_PROGRAM = r"""#!/bin/bash
read -r fault argument < {faults}/{name} 2> /dev/null
case "$fault {name} $1" in
busy*) ;;  # not taken: it comes again, and is the same order
*scontrol\ update|*scontrol\ release|*scontrol\ *hold|*scontrol\ requeue*|*sbatch*|*scancel*)
    IFS=$'\x1f'; printf '%s\n' "{name}$IFS$*" >> {orders}; unset IFS;;
esac
case "$fault" in
"") exec {real} "$@";;
hang) exec sleep 60;;
slow) sleep "$argument"; exec {real} "$@";;
refuse) echo "slurm_load: error: Unable to contact slurm controller (connect failure)" >&2; exit 1;;
busy) echo "{name}: error: Job is in transitional state, please try again later" >&2; exit 1;;
nothing) exit 0;;
lost) {real} "$@" > /dev/null 2>&1; echo "{name}: error: Socket timed out on send/recv operation" >&2; exit 1;;
cut) {real} "$@" | head -c "$argument"; exit 0;;
garbage) {real} "$@" | tr '|=, ' '=|\n\0'; exit 0;;
killed-before) rm {faults}/{name} && kill -9 $PPID; exit 1;;
killed-after) {real} "$@"; rm {faults}/{name} && kill -9 $PPID; exit 1;;
esac
"""


class SlurmPrograms:
    """The programs of one site, in a folder that everybody can enter.

    Attributes:
        path: the folder, for PATH.
    """

    def __init__(self, directory: Path) -> None:
        self.path, self._faults, self._orders = directory / "bin", directory / "faults", directory / "orders"
        for folder in (self.path, self._faults):
            folder.mkdir()
            folder.chmod(0o777)
        self._orders.touch()
        self._orders.chmod(0o666)
        for name in NAMES:
            program = self.path / name
            real = shutil.which(name)
            program.write_text(_PROGRAM.format(name=name, real=real, faults=self._faults, orders=self._orders))
            program.chmod(0o755)

    def break_(self, name: str, fault: str) -> None:
        """From now on this command fails so."""
        file = self._faults / f"{name}.new"
        file.write_text(f"{fault}\n")
        file.replace(self._faults / name)

    def mend(self) -> None:
        """All commands work."""
        for file in self._faults.iterdir():
            file.unlink(missing_ok=True)

    def orders(self) -> list[tuple[str, ...]]:
        """The orders that Slurm's commands were started with."""
        return [tuple(line.split(SEPARATOR)) for line in self._orders.read_text().splitlines()]
