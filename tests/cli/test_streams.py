"""Standard streams that the caller has closed, or that cannot be written, and what else a machine may lack."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli import policies
from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from tests.cli.test_replay import LOG

REPLAY = "replay --as ideal --no-store --no-report --quiet --trainers preset:hpo"


def run(tmp_path: Path, words: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of these words behind ``freetrain``."""
    (tmp_path / "site.psv").write_text(LOG)
    command = f'cd "$1" && exec "$0" -m freetrain {words}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable, str(tmp_path)], capture_output=True, text=True, check=False
    )


def test_a_log_from_closed_standard_input_is_an_empty_one(tmp_path: Path) -> None:
    done = run(tmp_path, f"{REPLAY} - <&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("freetrain: standard input is empty.")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_output_is_nobody_who_listens(tmp_path: Path, closed: str) -> None:
    done = run(tmp_path, f"{REPLAY} site.psv {closed}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_no_defect(tmp_path: Path) -> None:
    done = run(tmp_path, f"{REPLAY} site.psv >/dev/full")
    assert done.returncode == 74
    assert done.stderr.startswith("freetrain: what was to be written could not be: No space left on device.")


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.EMFILE, ""), BlockingIOError(errno.EAGAIN, "")], ids=repr
)
def test_what_this_machine_lacks_is_no_defect(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(policies.policies_command, "callback", fails)
    done = CliRunner().invoke(cli, ["policies"])
    assert (done.exit_code, "this machine lacks what freetrain needs" in done.stderr) == (ExitCode.TRY_AGAIN, True)
