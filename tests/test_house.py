"""The house's own rules, where no tool holds them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import freetrain

PACKAGE = Path(freetrain.__file__).parent
MOST_LINES = 500


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {path.name: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Not when the file is imported: each worker collects all tests.
@cache
def modules() -> dict[str, ast.Module]:
    return {module_of(path): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def imported_by(tree: ast.Module) -> Iterator[str]:
    """What a file imports of the package, also where it does so for types alone, or in a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules() else node.module for name in names)


def test_no_files_import_each_other_in_a_circle() -> None:
    # The package itself hands on the client, which imports the package's version.
    names, others = modules().keys(), {name: tree for name, tree in modules().items() if name != "freetrain"}
    graph = {name: {*imported_by(tree)} & names for name, tree in others.items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_the_name_of_a_type_is_given_once() -> None:
    defined = defaultdict(list)
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                defined[node.name.lstrip("_")].append(module)
            elif isinstance(node, ast.Assign) and isinstance(name := node.targets[0], ast.Name):
                bare = name.id.lstrip("_")
                # An alias: constants are in capitals, and all else begins with a small letter.
                if bare[:1].isupper() and not bare.isupper():
                    defined[bare].append(module)
    assert {name: modules for name, modules in defined.items() if len(modules) > 1} == {}


RELATIVE = ("What", "How", "When", "Why", "Which", "Where", "Those", "Who", "Its", "After", "As")
"""Words of clauses that say something of a thing, and not what it is."""


def test_docstrings_begin_with_what_the_thing_is() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{module}: {text.splitlines()[0]}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and text.split()[0] in RELATIVE
    ]
    assert found == []


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
