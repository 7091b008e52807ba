"""A sweep as an array of a real Slurm."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freetrain.lab import Lab, LabOptions
from tests.cli.test_sweep import LOG, SPEC, figures
from tests.slurm_lab import require_python_for_all, run, short_directory, started_lab

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab(LabOptions(nodes=2, cpus=2, accounting=True)) as lab:
        yield lab


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_directory() as directory:
        own = directory / "alice"
        own.mkdir()
        own.chmod(0o777)
        for name, month in (("june", "06"), ("july", "07")):
            (own / f"{name}.psv").write_text(LOG.replace("2024-06", f"2024-{month}"))
        (own / "spec.toml").write_text(SPEC.replace('"freetrain", "equal-share"', '"equal-share"'))
        yield own


def test_a_sweep_on_slurm_gives_the_table_that_it_gives_here(lab: Lab, folder: Path) -> None:
    require_python_for_all()

    def sweep(*options: str) -> list[Any]:
        command = (sys.executable, "-m", "freetrain", "sweep", str(folder / "spec.toml"), "--quiet", "--json")
        return figures(json.loads(run(lab, *command, *options, role="alice" if os.geteuid() == 0 else None)))

    array = ("--executor", "slurm", "--folder", str(folder / "array"), "--sbatch", "--partition=main")
    on_slurm = sweep("--store", str(folder / "slurm.db"), *array)
    assert len(on_slurm) == 2
    assert len(list((folder / "array").glob("array-*.keys"))) == 1
    assert on_slurm == sweep("--store", str(folder / "here.db"))
