from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from freetrain.elastic.on_node.standby import MODULE, imported_by, with_runner
from freetrain.errors import InputError

RUNNER = ["-m", "runner"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "train.py", "--lr", "1"], ["python", *RUNNER, "train.py", "--lr", "1"]),
        (["/env/bin/python3.12", "-u", "train.py"], ["/env/bin/python3.12", "-u", *RUNNER, "train.py"]),
        (["python3", "-m", "training", "-v"], ["python3", *RUNNER, "-m", "training", "-v"]),
    ],
)
def test_the_runner_comes_before_the_script(command: list[str], expected: list[str]) -> None:
    assert with_runner(command, "runner") == expected


@pytest.mark.parametrize(
    "command", [["bash", "train.sh"], ["python"], ["./train.py", "-v"], ["python", "-c", "print(1)"]]
)
def test_a_command_that_is_no_script_of_pythons_is_refused(command: list[str]) -> None:
    with pytest.raises(InputError, match="no script"):
        with_runner(command, "runner")


def test_a_standby_becomes_the_script_in_the_environment_that_it_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, sys\nprint(os.environ['RANK'], sys.argv[1:], sys.path[0])\n")
    result = subprocess.run(
        [sys.executable, "-m", MODULE, str(script), "--lr", "1"],
        input=json.dumps({"RANK": "3"}) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"3 ['--lr', '1'] {tmp_path}\n"


def test_what_a_script_imports_at_its_top_is_found(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import a.b, c\nfrom d.e import f\nfrom . import g\ndef later():\n    import h\n")
    assert list(imported_by(str(script))) == ["a.b", "c", "d.e"]
    assert list(imported_by(str(tmp_path / "none.py"))) == []
