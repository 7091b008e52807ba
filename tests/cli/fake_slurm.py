"""Slurm's commands as a test wants them: on PATH, recording what they are given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

_PROGRAM = """#!/bin/sh
{{ printf '%s\\0' {name} "$@"; printf '\\n\\0'; }} >> '{directory}/calls'
printenv > '{directory}/{name}.environment'
mark=$6; mark=${{mark%%\x1f*}}
[ -e '{directory}/{name}.out' ] && sed "s/MARK/$mark/" '{directory}/{name}.out'
for said in '{directory}/{name}.err' "{directory}/{name}.$1.err"; do
    [ -e "$said" ] && {{ cat "$said" >&2; exit 1; }}
done
exit 0
"""


@dataclass(frozen=True)
class FakeSlurm:
    """What its commands print and were told.

    Attributes:
        directory: of the programs and their records.
    """

    directory: Path

    @classmethod
    def on_path(cls, directory: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> FakeSlurm:
        """Put commands of these names before all others."""
        directory.mkdir()
        for name in names:
            program = directory / name
            program.write_text(_PROGRAM.format(name=name, directory=directory))
            program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
        return cls(directory)

    def answers(self, name: str, out: str = "") -> None:
        """Let a command print this."""
        (self.directory / f"{name}.out").write_text(out)

    def fails(self, name: str, err: str, when: str = "") -> None:
        """Let a command fail, always or when its first argument is this one."""
        (self.directory / (f"{name}.{when}.err" if when else f"{name}.err")).write_text(f"{err}\n")

    @property
    def calls(self) -> list[list[str]]:
        """The argument lists so far."""
        path = self.directory / "calls"
        text = path.read_text() if path.exists() else ""
        return [call.rstrip("\0").split("\0") for call in text.split("\n\0") if call]

    def environment(self, name: str) -> str:
        """That of the last call."""
        return (self.directory / f"{name}.environment").read_text()
