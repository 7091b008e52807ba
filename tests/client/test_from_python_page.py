"""docs/users/from-python.md, done: client and submitit with fakes for Slurm's commands; recipes only parsed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.cli.fake_slurm import FakeSlurm
from tests.cli.test_listings import Site, site, task
from tests.client.test_client import completed, sbatch

__all__ = ["sbatch", "site"]
PAGE = (Path(__file__).parents[2] / "docs/users/from-python.md").read_text()
CLIENT, SUBMITIT, *RECIPES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_the_client_works(
    site: Site, sbatch: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    completed(site)
    site.slurm.answers("squeue", task("1_0", "COMPLETED"))
    sbatch.answers("sbatch", "1\n")
    names: dict[str, object] = {}
    exec(CLIENT, names)
    assert (names["job"], names["stuck"]) == ("1", [])
    assert "Training 1 of news is complete" in capsys.readouterr().out


def test_the_example_of_submitit_works(
    site: Site, sbatch: FakeSlurm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submitit = pytest.importorskip("submitit", reason="submitit is not installed")
    (sbatch.directory / "srun").symlink_to("sbatch")
    monkeypatch.setattr(submitit.Job, "result", lambda job: job.submission().result())
    exec(SUBMITIT, {})
    assert capsys.readouterr().out == f"{[point**2 for point in range(200)]}\n"
    (call,) = sbatch.calls
    assert {"--array=0-199", "--comment=freetrain:notice=no,save=600,kind=tasks"} < set(call)


def test_the_recipes_are_python() -> None:
    assert len(RECIPES) == 2
    for recipe in RECIPES:
        ast.parse(recipe)
