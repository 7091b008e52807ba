from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from freetrain.elastic import gpu_check
from freetrain.elastic.gpu_check import CheckOutcome, CheckVerdict, status_of, summary, table
from tests.elastic.harness import ended_script

COMMAND = [sys.executable, "-m", "freetrain.elastic.gpu_check"]
WELL = CheckOutcome("health", CheckVerdict.WELL, "a product is right", 1.25)
FAILED = CheckOutcome("abort", CheckVerdict.FAILED, "aborting took 11 s", 11.0)
HANGS = CheckOutcome("compile", CheckVerdict.TIMED_OUT, "after 120 s", 120.0)
CANNOT = CheckOutcome("join, leave, kill", CheckVerdict.NOT_POSSIBLE, "needs two devices", 0.5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_ends_with_2(tmp_path: Path) -> None:
    done = ended_script(Path(gpu_check.__file__), in_folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "no GPU here that torch can use: nothing was checked\n"


@pytest.mark.soak
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


def test_the_status_is_0_where_all_that_is_possible_goes_well() -> None:
    assert status_of([WELL, CANNOT]) == 0


def test_it_is_1_where_something_fails_or_hangs() -> None:
    assert status_of([WELL, FAILED]) == status_of([WELL, HANGS]) == 1


def test_it_is_2_where_nothing_is_possible() -> None:
    assert status_of([CANNOT]) == status_of([]) == 2


def test_each_check_is_a_line_of_the_table() -> None:
    assert table([WELL, CANNOT]).splitlines() == [
        "check                              s",
        "health             well          1.2  a product is right",
        "join, leave, kill  not possible  0.5  needs two devices",
    ]


def test_the_summary_counts_them() -> None:
    assert summary([WELL, WELL, FAILED, CANNOT]) == "2 well, 1 FAILED, 1 not possible"
