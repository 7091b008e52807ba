"""The Debian package: what is in it, and that what it installs runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import needed

PROJECT = Path(__file__).parents[1]
EXPECTED = {
    "./usr/bin/freetrain",
    "./opt/freetrain/bin/python",
    "./etc/freetrain/",
    "./usr/share/doc/freetrain/freetrain.toml",
    "./usr/lib/systemd/system/freetrain.service",
    "./usr/lib/systemd/system/freetrain-web.service",
    "./usr/share/doc/freetrain/monitoring/freetrain-alerts.yml",
    "./usr/lib/sysusers.d/freetrain.conf",
    "./usr/share/man/man1/freetrain.1",
    "./usr/share/man/man5/freetrain.toml.5",
    "./usr/share/man/man8/freetraind.8",
    "./usr/share/bash-completion/completions/freetrain",
}

pytestmark = needed.a_program("dpkg-deb")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without the packages that freetrain needs: they come from where the tests have them."""
    place = tmp_path_factory.mktemp("package")
    python = Path(sys.executable).resolve()
    subprocess.run(
        [PROJECT / "etc" / "packages" / "deb.sh", "--no-deps", "--no-build-isolation", "--no-index"],
        cwd=place,
        env={**os.environ, "PYTHON": str(python), "PYTHONPATH": sysconfig.get_path("purelib")},
        check=True,
        timeout=300,
    )
    (found,) = place.glob("freetrain_*.deb")
    return found


def test_it_holds_what_a_site_needs_and_nothing_of_where_it_was_made(package: Path, tmp_path: Path) -> None:
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    names = {line.split()[5] for line in listed.splitlines()}
    assert names >= EXPECTED
    assert any("freetrain/__pycache__/" in name for name in names)
    assert {name.rpartition("/")[2] for name in names} >= {"page.css", "web.html.j2", "web.css", "live.js"}
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    for text in (tmp_path / "opt/freetrain/bin").iterdir():
        if not text.is_symlink():
            assert str(package.parent) not in text.read_text()
    assert (tmp_path / "opt/freetrain/bin/freetrain").read_text().startswith("#!/opt/freetrain/bin/python")


def test_what_it_installs_runs(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    done = subprocess.run(
        [tmp_path / "opt/freetrain/bin/python", "-m", "freetrain", "--version"],
        env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("freetrain, version")
