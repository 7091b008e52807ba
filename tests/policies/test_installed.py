"""The package that docs/developers/policy.md shows, built and installed as its reader would, and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.problems import mixed_problem
from freetrain.core.problem import problem_to_dict

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/developers/policy.md"
SAMPLE = ROOT / "sample_logs/small-cluster.sacct.gz"
PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
WITHOUT_NETWORK = ("--no-index", "--no-deps", "--no-build-isolation")


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": more.pop("path", str(ROOT))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]


def documented_files() -> Mapping[str, str]:
    """The page's code blocks, each by the name in its first line."""
    blocks = re.findall(r"```\w+\n(# (\S+)\n.*?)```", PAGE.read_text(), re.DOTALL)
    return {name: text for text, name in blocks}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH on which the package is installed."""
    source, target = tmp_path_factory.mktemp("freetrain-first-come"), tmp_path_factory.mktemp("site")
    for name, text in documented_files().items():
        (source / name).write_text(text)
    installed = run(*PIP_INSTALL, *WITHOUT_NETWORK, "--target", str(target), str(source))
    assert installed.returncode == 0, installed.stderr
    return f"{target}:{ROOT}"


def test_the_page_shows_a_package_with_its_test() -> None:
    assert set(documented_files()) == {
        "pyproject.toml",
        "freetrain_first_come.py",
        "test_freetrain_first_come.py",
    }


def test_its_own_test_passes(path: str, tmp_path: Path) -> None:
    name = "test_freetrain_first_come.py"
    (tmp_path / name).write_text(documented_files()[name])
    tested = run("-m", "pytest", "-q", "-p", "no:cacheprovider", name, path=path, cwd=str(tmp_path))
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout


def test_it_solves_problems(path: str, tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    problems.write_text(
        "\n".join(json.dumps(problem_to_dict(mixed_problem(seed, lives=True))) for seed in range(100))
    )
    solved = run("-m", "freetrain", "solve", str(problems), "--policy", "first-come", path=path)
    assert solved.returncode == 0, solved.stderr
    decisions = [json.loads(line) for line in solved.stdout.splitlines()]
    assert {(decision["solver"], decision["status"]) for decision in decisions} == {("first come", "heuristic")}


def test_it_replays_a_log(path: str) -> None:
    window = ("--until", "2024-06-03T12:00", "--no-store", "--no-report", "--json", "-q")
    replayed = run("-m", "freetrain", "replay", str(SAMPLE), "--policy", "first-come", *window, path=path)
    assert replayed.returncode == 0, replayed.stderr
    outcome = json.loads(replayed.stdout)["outcome"]
    assert set(outcome["statuses"]) == {"heuristic (first come)"}
    assert outcome["samples"] > 0


def test_without_it_installed_its_name_is_refused() -> None:
    refused = run("-m", "freetrain", "replay", str(SAMPLE), "--policy", "first-come")
    assert refused.returncode == 2
    assert "There is no policy 'first-come'." in refused.stderr
    assert "Choose one of freetrain, equal-share, greedy" in refused.stderr
    assert "Traceback" not in refused.stderr
