"""The checks themselves, on the CPU: of GPUs they say nothing here."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

COMMAND = [sys.executable, "-m", "freetrain.elastic.gpu_check"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_ends_with_2() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "no GPU here that torch can use: nothing was checked\n"


@pytest.mark.slow
def test_on_the_cpu_the_checks_check_themselves() -> None:
    only = ["health", "abort"]
    command = [*COMMAND, "--device", "cpu", "--only", *only]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    heading, _, *rows, summary = done.stdout.splitlines()
    assert heading == "on the CPU with gloo: this checks the checks, and says nothing about any GPU"
    assert [row.startswith(name) for row, name in zip(rows, only, strict=True)] == [True] * 2
    assert summary == "1 well, 1 not possible"


@pytest.mark.soak
def test_all_checks_on_the_cpu() -> None:
    done = subprocess.run([*COMMAND, "--device", "cpu"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
