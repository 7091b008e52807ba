"""What docs/try/laptop.md shows, typed line by line: a training grows, gives way and trains on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from freetrain.elastic.on_disk.progress import read_progress
from freetrain.lab import LabOptions
from tests.docs_shell import ROOT
from tests.slurm_lab import on_free_ports, short_directory

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SAYS: Mapping[str, str] = {
    "it has four nodes": "trains_on 4; has 4",
    "it trains on two, without having stopped": "trains_on 2; has 2",
}
"""What the page says beside ``freetrain jobs``, waited for: in the file first, as each command starts a Python."""
PACED = ROOT / "tests/elastic/scripts/paced.py"
"""Runs the page's training: four nodes are four times as fast as one, on a machine of few cores, too."""
BEGIN = """set -eu
trap 'freetrain explain 1; kill %1; wait; freetrain lab down' EXIT
has() { until [ "$(freetrain jobs -P -h -o NODES)" = $1 ]; do sleep 0.5; done; }
trains_on() { until tail -n 1 t1/progress.jsonl | grep -q "\\"nodes\\": *$1\\b"; do sleep 0.5; done; }
"""


def typed(port: int) -> str:
    """The page's lines."""
    section = (ROOT / "docs/try/laptop.md").read_text().partition("\n## A training grows and shrinks\n")[2]
    text = "".join(f"{line[4:]}\n" for line in section.splitlines() if line.startswith("    ") or not line)
    for says, until in SAYS.items():
        text, found = re.subn(rf"^freetrain jobs(.*)# {says}$", rf"{until}\1", text, flags=re.MULTILINE)
        assert found == 1, says
    text, found = re.subn(r"^freetrain lab up", f"freetrain lab up --port {port}", text, flags=re.MULTILINE)
    assert found == 1
    text, found = re.subn(r"--wrap 'sleep 30'", "--wrap 'sleep 300'", text)  # time to see it
    assert found == 1
    return BEGIN + text


def test_a_training_grows_and_shrinks_as_the_page_says() -> None:
    port = on_free_ports(LabOptions(nodes=4)).base_port
    with short_directory() as directory:
        (directory / "docs").symlink_to(ROOT / "docs")
        (directory / "bin").mkdir()
        for name, runs in (("python", PACED), ("freetrain", "-m freetrain")):
            (directory / "bin" / name).write_text(f'#!/bin/sh\nexec {sys.executable} {runs} "$@"\n')
            (directory / "bin" / name).chmod(0o755)
        environment = os.environ | {
            "PATH": f"{directory}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "FREETRAIN_LAB": str(directory / "lab"),
        }
        done = subprocess.run(
            ["timeout", "400", "bash", "-c", typed(port)], cwd=directory, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        progress = read_progress(directory / "t1/progress.jsonl")
        nodes = {rate.nodes for rate in progress.rates} | {change.nodes for change in progress.rescales}
        assert nodes >= {4, 2}
        assert "loss" not in {change.cause for change in progress.rescales}
