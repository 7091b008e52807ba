"""Labs for tests: a real Slurm each, below a short path and on free ports."""

from __future__ import annotations

import functools
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freetrain.errors import FreetrainError
from freetrain.lab import Lab, LabOptions
from freetrain.lab.programs import is_free, require_programs
from tests.needed import IN_CI

# Below the ports that Linux gives to clients, which come and go.
FIRST_PORT, LAST_PORT = 20_000, 31_999
_BLOCK = 50
_reserved: list[ExitStack] = []


@functools.cache
def without_slurm() -> str:
    """Why there can be no lab; empty where there can be one. Not to have one is a failure where CI is set."""
    try:
        require_programs(accounting=True)
    except FreetrainError as error:
        return _unless_ci(f"{error.what} {error.hint}")
    return ""


def require_python_for_all() -> None:
    """Skip, or fail where CI is set, if the accounts that play people cannot run this Python."""
    if why := _closed_to_others():
        pytest.skip(_unless_ci(why))


@functools.cache
def _closed_to_others() -> str:
    if os.geteuid() != 0:
        return ""
    # setpriv keeps capabilities with which root's folders can be entered still.
    account = pwd.getpwnam("backup")
    identity: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with suppress(PermissionError):
        program = [sys.executable, "-c", "import freetrain"]
        if subprocess.run(program, cwd="/", capture_output=True, **identity).returncode == 0:
            return ""
    program_file = Path(sys.executable)
    folders = [*reversed(program_file.parents), *reversed(program_file.resolve().parents)]
    closed = next((each for each in folders if not each.stat().st_mode & 0o001), "")
    return f"other accounts cannot run {sys.executable}: chmod o+x {closed or 'its folders'}"


def _unless_ci(why: str) -> str:
    if IN_CI:
        pytest.fail(why, pytrace=False)
    return why


@contextmanager
def started_lab(options: LabOptions) -> Iterator[Lab]:
    """A lab on free ports, and its end.

    It is not below pytest's tmp_path, which other accounts cannot enter, and which is too long for sockets.
    """
    with short_directory() as directory:
        lab = Lab.up(directory / "lab", on_free_ports(options))
        try:
            yield lab
        finally:
            lab.down()


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory that every account can enter; labs in it end with it, whatever happens to the test."""
    directory = Path(tempfile.mkdtemp(prefix="ft-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        for depth in ("", "*/", "*/*/"):
            for parameters in directory.glob(f"{depth}lab.json"):
                with suppress(FreetrainError):
                    Lab.find(parameters.parent).down()
        shutil.rmtree(directory, ignore_errors=True)


def on_free_ports(options: LabOptions) -> LabOptions:
    """The options with ports that nobody uses, and that no other test takes while this process lives."""
    blocks = (options.ports[-1] - options.base_port) // _BLOCK + 1
    starts = range(FIRST_PORT, LAST_PORT + 2 - blocks * _BLOCK, _BLOCK)
    for base in random.sample(starts, len(starts)):
        found = replace(options, base_port=base)
        if _reserve(range(base, base + blocks * _BLOCK, _BLOCK)) and all(is_free(port) for port in found.ports):
            return found
    raise AssertionError(f"no {blocks * _BLOCK} free ports from {FIRST_PORT} to {LAST_PORT}")


def free_port() -> int:
    """A port that nobody uses, and that no other test takes while this process lives."""
    return on_free_ports(LabOptions(nodes=1)).base_port


def _reserve(blocks: range) -> bool:
    """Whether these blocks of ports are now ours alone: by a name for each, which the kernel frees at our end."""
    with ExitStack() as taken:
        for block in blocks:
            claim = taken.enter_context(socket.socket(socket.AF_UNIX))
            try:
                claim.bind(f"\0freetrain-test-ports-{block}")
            except OSError:
                return False
        _reserved.append(taken.pop_all())
    return True


def run(lab: Lab, *command: str, role: str | None = None) -> str:
    """What a command prints in a lab, of one of its people where a role is given."""
    identity = {}
    if role is not None and os.geteuid() == 0:
        account = pwd.getpwnam(lab.users[role])
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return subprocess.run(
        command,
        env=os.environ | lab.environment,
        cwd="/tmp",
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
        **identity,
    ).stdout


def eventually(fine: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Whether something becomes so within the time."""
    begin_s = time.monotonic()
    while not (so := fine()) and (waited_s := time.monotonic() - begin_s) < seconds:
        time.sleep(min(1.0, 0.1 + waited_s / 10))  # what is asked may start a command
    return so
