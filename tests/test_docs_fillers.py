"""The scripts of pilots in docs/users/pilots.md; those that need no Optuna run on a Slurm in test_pilots.py."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs/users/pilots.md").read_text()
SCRIPTS = {name: text for text, name in re.findall(r"```bash\n(#!/bin/bash\n# (\S+)\n.*?)```", PAGE, re.DOTALL)}
SEARCH = re.search(r"```python\n(# search\.py\n.*?)```", PAGE, re.DOTALL)
OPTUNA = '''
"""As much of Optuna as the page uses; each deed is a line of the journal."""
import json
import sys
import types

import optuna.trial


class Study:
    def __init__(self, journal):
        self.journal = journal

    def note(self, *deed):
        with open(self.journal, "a") as file:
            file.write(json.dumps(deed) + "\\n")

    def get_trials(self, states):
        return [line for line in open(self.journal) if '"COMPLETE"' in line]

    def ask(self):
        self.note("ask")
        return types.SimpleNamespace(params={"x": 3.0}, suggest_float=lambda name, low, high: 3.0)

    def tell(self, trial, value=None, state="COMPLETE"):
        self.note("tell", value, state)

    def enqueue_trial(self, params):
        self.note("enqueue", params)


def create_study(study_name, storage, load_if_exists):
    assert load_if_exists
    open(storage, "a").close()
    return Study(storage)


backend = types.SimpleNamespace(JournalFileBackend=str)
storages = types.SimpleNamespace(journal=backend, JournalStorage=str)
'''


@pytest.fixture
def search(tmp_path: Path) -> Path:
    """The page's program, and beside it what it imports."""
    assert SEARCH is not None
    (tmp_path / "search.py").write_text(SEARCH[1].replace("< 100", "< 5"))
    (tmp_path / "optuna").mkdir()
    (tmp_path / "optuna/__init__.py").write_text(OPTUNA)
    (tmp_path / "optuna/trial.py").write_text('class TrialState:\n    COMPLETE, FAIL = "COMPLETE", "FAIL"\n')
    return tmp_path / "search.py"


def deeds(study: Path) -> list[list[object]]:
    return [json.loads(line) for line in study.read_text().splitlines()] if study.exists() else []


def run(search: Path, study: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(search.parent)}
    return subprocess.Popen([sys.executable, str(search), str(study)], env=environment)


def test_a_search_ends_when_enough_has_been_tried(search: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    assert run(search, study).wait(60) == 0
    assert deeds(study) == [["ask"], ["tell", 1.0, "COMPLETE"]] * 5


def test_a_search_that_is_told_to_leave_has_somebody_else_try_the_same(search: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    busy = tmp_path / "busy"
    slow = f"    import pathlib, time; pathlib.Path('{busy}').touch(); time.sleep(600)\n    return (x - 2)"
    search.write_text(search.read_text().replace("    return (x - 2)", slow))
    process = run(search, study)
    until_s = time.monotonic() + 60
    while not busy.exists():
        assert time.monotonic() < until_s
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert deeds(study) == [["ask"], ["enqueue", {"x": 3.0}], ["tell", None, "FAIL"]]


def test_each_script_keeps_what_an_earlier_run_printed_and_is_one_step() -> None:
    assert len(SCRIPTS) >= 4
    for name, text in SCRIPTS.items():
        assert "--open-mode=append" in text, name
        assert text.count("srun --ntasks=1 ") == 1, name
