"""A replay comes out the same each time, whatever order Python's sets have in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

LOG = Path(__file__).parents[2] / "sample_logs" / "small-cluster.sacct.gz"
OPTIONS = (
    *("--trainers", "preset:mix", "--max-running", "10", "--until", "2024-06-04T00:00", "--as", "ideal"),
    *("--scale-up", "60", "--scale-down", "60", "--forced-loss", "360", "--start", "60"),
    *("--no-report", "--no-store", "--quiet", "--json"),
)


def figures(hash_seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "freetrain", "replay", str(LOG), *OPTIONS]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    outcome = json.loads(done.stdout)["outcome"]
    return {name: value for name, value in outcome.items() if not name.startswith("solve_")}


def test_a_replay_comes_out_the_same_in_another_process() -> None:
    first = figures(1)
    assert first["trainers_completed"] > 0
    assert first == figures(3)
