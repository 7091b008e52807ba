"""The sdist, which is the whole project, and the wheel that is made from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def files(folder: str) -> set[str]:
    """What lies below a folder of the project, but for what Python leaves there."""
    found = (path for path in (PROJECT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(PROJECT)) for path in found}


def python(place: Path, code: str, *arguments: str | Path) -> None:
    subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=place, check=True, capture_output=True, timeout=120
    )


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist's contents."""
    place = tmp_path_factory.mktemp("sdist")
    # What an earlier one held counts, unless its list lies elsewhere.
    command = ("egg_info", "--egg-base", place, "sdist", "--dist-dir", place)
    python(PROJECT, "import setuptools; setuptools.setup()", *command)
    (archive,) = place.glob("freetrain-*.tar.gz")
    shutil.unpack_archive(archive, place)
    return place / archive.name.removesuffix(".tar.gz")


def test_the_sdist_holds_all_that_packages_and_tests_are_made_of(unpacked: Path) -> None:
    held = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert held >= {"CHANGELOG.md", "LICENSE", "Makefile", "README.md", "pyproject.toml", "setup.cfg"}
    for folder in ("docs", "etc", "freetrain", "sample_logs", "systemd", "tests"):
        assert files(folder) - held == set()
    assert [name for name in held if name.endswith(".pyc")] == []
    assert os.access(unpacked / "etc/packages/layout.sh", os.X_OK)


def test_a_wheel_from_it_holds_the_package_with_its_templates(unpacked: Path, tmp_path: Path) -> None:
    python(unpacked, "import sys, setuptools.build_meta as it; it.build_wheel(sys.argv[1])", tmp_path)
    (wheel,) = tmp_path.glob("freetrain-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {"freetrain/py.typed", "freetrain/web/live.js"} <= files("freetrain")
    assert files("freetrain") - held == set()
    assert {name.partition("/")[0] for name in held if ".dist-info/" not in name} == {"freetrain"}
    assert any(name.endswith("/LICENSE") for name in held)
