"""Slurm's commands as a test wants them: on PATH, recording what they are given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = (Path(__file__).parents[1] / "slurm" / "recorded" / "config_22.05.txt").read_text()
"""What a whole answer to ``scontrol show config`` is."""

_PROGRAM = """#!/bin/sh
{{ printf '%s\\0' {name} "$@"; printf '\\n\\0'; }} >> '{directory}/calls'
printenv > '{directory}/{name}.environment'
mark=
for word; do case $word in *\x1f*) mark=${{word%%\x1f*}}; [ -e '{directory}/garbage' ] || echo "$word";; esac; done
for said in '{directory}/{name}.out' "{directory}/{name}.$3.$4.out" "{directory}/{name}.$1.$2.out"; do
    [ -e "$said" ] && sed "s/MARK/$mark/" "$said"
done
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

    def answers(self, name: str, out: str = "", when: str = "") -> None:
        """Let a command print this, always or when asked for this, as ``show nodes``; squeue below a header."""
        which = f"{name}.{when.replace(' ', '.')}" if when else name
        (self.directory / f"{which}.out").write_text(out)

    def without_header(self) -> None:
        """Let squeue print its records alone."""
        (self.directory / "garbage").touch()

    def fails(self, name: str, err: str, when: str = "") -> None:
        """Let a command fail, always or when its first argument is this one."""
        (self.directory / (f"{name}.{when}.err" if when else f"{name}.err")).write_text(f"{err}\n")

    def succeeds(self, name: str) -> None:
        """Let a command that failed always answer again."""
        (self.directory / f"{name}.err").unlink()

    @property
    def calls(self) -> list[list[str]]:
        """The argument lists so far."""
        path = self.directory / "calls"
        text = path.read_text() if path.exists() else ""
        return [call.rstrip("\0").split("\0") for call in text.split("\n\0") if call]

    def environment(self, name: str) -> str:
        """That of the last call."""
        return (self.directory / f"{name}.environment").read_text()
