"""A worker that has imported what its script imports, and waits for its place in the next world.

``python -m freetrain.elastic.on_node.standby [-m MODULE | FILE] …`` reads its environment, one line of JSON, from
standard input, and is the script from there on. So a change of size in restart mode waits for no import.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import json
import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from freetrain.errors import InputError

MODULE = "freetrain.elastic.on_node.standby"
READY_VARIABLE = "FREETRAIN_STANDBY_READY"
"""Path of the file that a standby makes when it waits for nothing but its place."""

_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def with_runner(command: Sequence[str], runner: str) -> list[str]:
    """The command with a module before the script, which runs that.

    Raises:
        InputError: it is not a Python and its script.
    """
    place = next((place for place, word in enumerate(command) if place and (word == "-m" or word[:1] != "-")), 0)
    if not Path(command[0]).name.startswith("python") or not place or "-c" in command[:place]:
        raise InputError(
            f"there is no script to be seen in '{' '.join(command[:2])}'.",
            "Give the script itself: freetrain run … -- python train.py …",
        )
    return [*command[:place], "-m", runner, *command[place:]]


def run_script(arguments: Sequence[str]) -> None:
    """Run a script, or a module, with its arguments, as Python would."""
    is_module = arguments[0] == "-m"
    sys.argv = list(arguments[is_module:])
    if is_module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.fspath(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


def preload(script: str) -> None:
    """Import what the script does, as far as it is installed: modules beside it may look at the environment."""
    for name in imported_by(script):
        with contextlib.suppress(Exception):
            spec = importlib.util.find_spec(name.partition(".")[0])
            if spec is not None and str(spec.origin).startswith(_INSTALLED):
                importlib.import_module(name)


def imported_by(script: str) -> Iterator[str]:
    """The modules that a script imports at its top; none of what cannot be read."""
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for statement in ast.parse(Path(script).read_bytes()).body:
            if isinstance(statement, ast.Import):
                yield from (alias.name for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                yield statement.module


def main() -> None:
    """Get ready, wait, and be the script."""
    arguments = sys.argv[1:]
    preload(arguments[0])
    if path := os.environ.pop(READY_VARIABLE, ""):
        Path(path).touch()
    line = sys.stdin.readline()
    if not line:  # the agent has ended
        return
    os.environ.update(json.loads(line))
    run_script(arguments)


if __name__ == "__main__":
    main()
