"""The house's own rules, where no tool holds them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import freetrain

PACKAGE = Path(freetrain.__file__).parent
MOST_LINES = 500


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {path.name: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_every_package_says_what_it_is() -> None:
    silent = [path for path in PACKAGE.rglob("__init__.py") if not path.read_text().startswith(('"""', 'r"""'))]
    assert silent == []


def test_every_package_tells_its_protocol_and_names_only_files_that_it_has() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        text = path.read_text()
        assert text.count("\n") > 1 or path == PACKAGE / "__init__.py", f"{path} is silent"
        named = set(re.findall(r"``((?:\w+/)*\w+\.py)``", text))
        missing = [name for name in named if not (path.parent / name).exists() and not (PACKAGE / name).exists()]
        assert missing == [], f"{path} names files that are not there"


def imported_with(module: str, heavy: tuple[str, ...]) -> str:
    script = f"import sys, {module}; print(*(name for name in {heavy} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_commands_that_need_no_solver_and_no_log_import_neither() -> None:
    assert imported_with("freetrain.cli.policies", ("pyomo", "polars", "matplotlib")) == ""


def test_a_replay_that_is_not_recorded_or_reported_imports_no_database_and_no_templates() -> None:
    heavy = ("sqlalchemy", "alembic", "jinja2", "matplotlib", "pyomo", "torch")
    assert imported_with("freetrain.cli.replay", heavy) == ""


def test_the_module_can_be_run() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "freetrain", "--version"], capture_output=True, text=True, check=True
    )
    assert freetrain.__version__ in result.stdout
