"""What the documentation shows, done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.cli.sweep import check
from freetrain.client.documents import NodesEntry
from freetrain.client.trainings import JobEntry
from freetrain.core.objectives import worth_per_s
from freetrain.daemon.reports.standing import DaemonState
from freetrain.daemon.reports.status import DaemonStatus, Identity, LookStatus, TrainerStatus
from freetrain.replay.sweep import read_sweep
from freetrain.replay.trainers import PRESETS, read_trainers
from freetrain.store import Store
from tests.docs_shell import place

ROOT = Path(__file__).parents[1]
MENTIONING = {"", ".py", ".lua", ".toml", ".cfg", ".yml", ".service", ".sh", ".spec", ".1", ".5", ".8"}
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "sample_logs/README.md", *(ROOT / "docs").rglob("*.md")]


def block(page: str, language: str, containing: str) -> str:
    """The first code block of a page in this language that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return next(found for found in blocks if containing in found)


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_every_page_that_code_and_settings_mention_is_there() -> None:
    folders = ("benchmarks", "etc", "freetrain", "systemd", "tests")
    paths = [
        ROOT / "Makefile",
        *ROOT.glob("*.*"),
        *(path for each in folders for path in (ROOT / each).rglob("*.*")),
    ]
    texts = [path.read_text() for path in paths if path.suffix in MENTIONING and path.is_file()]
    mentioned = {page for text in texts for page in re.findall(r"\bdocs/[\w/-]+\.md", text)}
    assert len(mentioned) > 20
    assert [page for page in sorted(mentioned) if not (ROOT / page).exists()] == []


def test_the_architecture_has_every_room() -> None:
    page, package = (ROOT / "docs/developers/architecture.md").read_text(), ROOT / "freetrain"
    rooms = [path.parent.name for path in package.glob("*/__init__.py")]
    assert [room for room in rooms if f"\n- `{room}/` (" not in page] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/developers").glob("*.md")), ids=lambda page: page.stem)
def test_developers_read_of_modules_that_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    package = ROOT / "freetrain"
    there = {f"{path}{'/' * path.is_dir()}" for path in package.rglob("*")} | {f"{ROOT}/freetrain/"}
    there |= {str(path) for path in (ROOT / "tests").rglob("*.py")}
    named = set(re.findall(r"`([a-z_./]+(?:\.py|/))`", text))
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []


def test_the_documented_objective_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "site_objectives.py").write_text(block("docs/decides/objectives.md", "python", "def thrifty"))
    alexnet = next(iter(PRESETS["mix"]))
    worth = worth_per_s(alexnet, "site_objectives:thrifty")
    assert worth[1] == 1.0
    assert worth[64] == 0.0


def test_the_documented_trainers_are_trainers(tmp_path: Path) -> None:
    path = tmp_path / "trainers.toml"
    path.write_text(block("docs/reference/formats.md", "toml", "[[trainers]]"))
    assert read_trainers(path)[0].most_nodes == 16


def test_the_documented_problem_has_the_documented_result() -> None:
    problem = block("docs/reference/formats.md", "json", "freetrain-problem/1")
    result = CliRunner().invoke(cli, ["solve", "-"], input=problem)
    answer = json.loads(result.stdout)
    documented = json.loads(block("docs/reference/formats.md", "json", '"status"'))
    assert answer | {"solve_s": 0} == documented | {"solve_s": 0}


@pytest.mark.parametrize(
    ("section", "kinds"),
    [
        ("## Jobs:", (JobEntry,)),
        ("## Nodes:", (NodesEntry,)),
        ("## The daemon's status:", (DaemonStatus, Identity, LookStatus, TrainerStatus)),
        ("### Daemon in listings", (DaemonState,)),
    ],
)
def test_the_formats_have_every_field_that_is_published(section: str, kinds: tuple[type, ...]) -> None:
    text = (ROOT / "docs/reference/formats.md").read_text().partition(f"\n{section}")[2]
    text = re.split(r"^##+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    names = [field.name for kind in kinds for field in fields(kind) if field.name != "format"]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_documented_sweep_is_one(tmp_path: Path) -> None:
    path = tmp_path / "first.toml"
    path.write_text(block("docs/reference/sweeps.md", "toml", "freetrain-sweep/1"))
    cells = read_sweep(path, ROOT / "sample_logs").cells
    assert [cell.name for cell in cells][:2] == ["small, freetrain, summit", "small, freetrain, large"]
    assert len(cells) == 8
    for cell in cells:
        check(cell)


def test_the_weekly_report_asks_for_what_the_readme_asks_for() -> None:
    asked = [
        re.findall(r"-o (JobID,\S+)", (ROOT / place).read_text())
        for place in ("README.md", "docs/reference/logs.md", "systemd/freetrain-report.service")
    ]
    assert len(asked[0]) == 1
    assert asked == [asked[0]] * 3


def test_the_monthly_ledger_unit_runs_its_command(tmp_path: Path) -> None:
    unit = (ROOT / "systemd/freetrain-ledger.service").read_text()
    command = re.search(r"ExecStart=/bin/sh -c '(.*)'", unit)
    assert command is not None
    state, page = tmp_path / "state", tmp_path / "freetrain-ledger"
    page.mkdir()
    Store.open(state / "freetrain.db")
    (tmp_path / "freetrain.toml").write_text(f"[state]\ndirectory = '{state}'\n")
    script = command[1].replace("freetrain ledger", f"{sys.executable} -m freetrain ledger")
    environment = os.environ | {
        "STATE_DIRECTORY": str(page),
        "FREETRAIN_CONFIG": str(tmp_path / "freetrain.toml"),
    }
    subprocess.run(["/bin/sh", "-c", script], env=environment, check=True, capture_output=True, cwd=tmp_path)
    assert "No idle node was lent" in (page / "ledger.html").read_text()


def test_the_weekly_report_unit_runs_its_command(tmp_path: Path) -> None:
    unit = (ROOT / "systemd/freetrain-report.service").read_text()
    command = re.search(r"ExecStart=/bin/sh -c '(.*)'", unit)
    assert command is not None
    sample = ROOT / "sample_logs/small-cluster.sacct.gz"
    script = command[1].replace("freetrain replay", f"{sys.executable} -m freetrain replay")
    # Its beginning is enough for a page with figures.
    (tmp_path / "sacct").write_text(f"#!/bin/sh\ngzip -dc {sample} | head -n 300\n")
    (tmp_path / "sacct").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "STATE_DIRECTORY": str(tmp_path),
        "FREETRAIN_REPORT_OPTIONS": "--as ideal",  # the whole week as daemon takes too long for a test
    }
    subprocess.run(["/bin/sh", "-c", script], env=environment, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "freetrain.db").exists()
