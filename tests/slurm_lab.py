"""Labs for tests: a real Slurm each, below a short path and on free ports."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from freetrain.lab import Lab, LabOptions
from freetrain.lab.ports import is_free

# Below the ports that Linux gives to clients, which come and go.
FIRST_PORT, LAST_PORT = 21_000, 21_999


@contextmanager
def started_lab(options: LabOptions) -> Iterator[Lab]:
    """A lab on free ports, and its end; where Slurm is not installed this fails, and nothing is skipped.

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
    """A directory that every account can enter."""
    directory = Path(tempfile.mkdtemp(prefix="ft-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def on_free_ports(options: LabOptions) -> LabOptions:
    """The options with ports that nobody uses."""
    span = options.ports[-1] - options.base_port
    bases = range(FIRST_PORT, LAST_PORT - span)
    candidates = (replace(options, base_port=base) for base in random.sample(bases, len(bases)))
    return next(found for found in candidates if all(is_free(port) for port in found.ports))


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
        timeout=60,
        **identity,
    ).stdout


def eventually(fine: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether something becomes so within the time."""
    deadline = time.monotonic() + seconds
    while not (so := fine()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return so
