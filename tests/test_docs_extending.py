"""What extending, keys, facts and slurm of docs/developers show, as it stands there: recipes, ways to Slurm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = "".join(
    (ROOT / f"docs/developers/{name}.md").read_text() for name in ("extending", "keys", "facts", "slurm")
)
FILES = {name: text for text, name in re.findall(r"```python\n(# (\S+)\n.*?)```", PAGES, re.DOTALL)}


TYPED = ("on_battery.py", "least_served.py", "sparing.py", "warning_first.py", "over_ssh.py")


def test_all_of_it_passes_its_own_tests(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout
    assert set(FILES) == {*TYPED, *(f"test_{name}" for name in TYPED), "test_key.py"}


def test_it_is_typed_as_freetrain_is(tmp_path: Path) -> None:
    for name in TYPED:
        (tmp_path / name).write_text(FILES[name])
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "c"),
    ]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *map(str, sorted(tmp_path.glob("*.py")))],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_every_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"`((?:freetrain|tests|etc)/[a-z_/]+(?:\.(?:py|lua))?)`", PAGES))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def text_of(path: str) -> str:
    """Of a file whose path is the project's or the package's; empty: there is none."""
    found = (folder / path for folder in (ROOT, ROOT / "freetrain") if (folder / path).exists())
    return next(found, Path(os.devnull)).read_text()


def test_every_name_that_is_said_to_be_in_a_file_is_there() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs/developers").glob("*.md"))
    named = re.findall(r"`(\w+)`\s+(?:in|of|\()\s*`([\w/]+\.(?:py|lua))`", pages)
    assert ("launcher_of", "freetrain/daemon/setup.py") in named
    assert ("_inputs", "freetrain/daemon/lender.py") in named
    assert [(name, path) for name, path in named if not re.search(rf"\b{name}\b", text_of(path))] == []
