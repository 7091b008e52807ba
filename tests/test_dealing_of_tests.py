"""How tests are dealt to workers: whole modules, since those of one share its lab."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
MODULE = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    Path(__file__ + "." + os.environ["PYTEST_XDIST_WORKER"]).touch()
"""


def test_the_tests_of_a_module_are_dealt_to_one_worker(tmp_path: Path) -> None:
    for name in ("test_a.py", "test_b.py", "test_c.py"):
        (tmp_path / name).write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", tmp_path]
    options = ["-p", "tests.conftest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", tmp_path]
    done = subprocess.run([*command, *options], cwd=PROJECT, capture_output=True, text=True, timeout=300)
    assert "18 passed" in done.stdout, done.stdout
    workers = [path.name.partition(".py.")[2] for path in sorted(tmp_path.glob("test_*.py.gw*"))]
    assert len(workers) == 3, "one for each module"
    assert set(workers) == {"gw0", "gw1"}
