from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_to_ask_freetrain(shell: str) -> None:
    said = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert f"_FREETRAIN_COMPLETE={shell}_complete" in said


def test_the_script_for_bash_is_one_that_bash_reads() -> None:
    said = CliRunner().invoke(cli, ["completion", "bash"]).stdout
    done = subprocess.run(["bash", "-n"], input=said, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_are_completed() -> None:
    environment = os.environ | {
        "_FREETRAIN_COMPLETE": "bash_complete", "COMP_WORDS": "freetrain config che", "COMP_CWORD": "2"
    }  # fmt: skip
    program = "from freetrain.cli.main import cli; cli(prog_name='freetrain')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["plain,check"]
