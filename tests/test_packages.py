"""The packages for Debian and for distributions with RPM: what is in them, and that what they install runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import freetrain
from tests import needed

PROJECT = Path(__file__).parents[1]
PIP_OPTIONS = ("--no-deps", "--no-build-isolation", "--no-index")
"""Without the packages that freetrain needs: they come from where the tests have them."""
EXPECTED = {
    "/usr/bin/freetrain",
    "/opt/freetrain/bin/python",
    "/usr/share/doc/freetrain/freetrain.toml",
    "/usr/share/doc/freetrain/docs/admins/web.md",
    "/usr/lib/systemd/system/freetrain.service",
    "/usr/lib/systemd/system/freetrain-web.service",
    "/usr/lib/systemd/system/freetrain-backup.service",
    "/usr/lib/systemd/system/freetrain-backup.timer",
    "/usr/share/doc/freetrain/monitoring/freetrain-alerts.yml",
    "/usr/lib/sysusers.d/freetrain.conf",
    "/usr/lib/tmpfiles.d/freetrain.conf",
    "/usr/share/man/man1/freetrain.1",
    "/usr/share/man/man5/freetrain.toml.5",
    "/usr/share/man/man8/freetraind.8",
    "/usr/share/bash-completion/completions/freetrain",
}


def make(place: Path, command: list[str | Path]) -> None:
    environment = {**os.environ, "PYTHON": os.path.realpath(sys.executable)}
    environment["PYTHONPATH"] = sysconfig.get_path("purelib")
    environment["DPKG_DEB_COMPRESSOR_LEVEL"] = "0"  # at its usual one xz takes six seconds of a core
    subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True, timeout=300)


def deb(place: Path) -> Path:
    """A Debian package."""
    make(place, [PROJECT / "etc/packages/deb.sh", *PIP_OPTIONS])
    return next(place.glob("freetrain_*.deb"))


def rpm(place: Path) -> Path:
    """An RPM; what is its user's own is left out."""
    names = {
        "project": PROJECT,
        "version_": freetrain.__version__,
        "pip_options": " ".join(PIP_OPTIONS),
        "_topdir": place,
        "_binary_payload": "w.ufdio",
    }
    defined = [word for name, value in names.items() for word in ("--define", f"{name} {value}")]
    make(place, ["rpmbuild", "-bb", *defined, PROJECT / "etc/packages/freetrain.spec"])
    return next(place.glob("RPMS/*/freetrain-*.rpm"))


def unpack(package: Path, place: Path) -> None:
    if package.suffix == ".deb":
        subprocess.run(["dpkg-deb", "--extract", package, place], check=True)
        return
    archive = subprocess.run(["rpm2cpio", package], check=True, capture_output=True).stdout
    subprocess.run(["cpio", "--extract", "--make-directories", "--quiet"], cwd=place, input=archive, check=True)


def scripts(package: Path) -> str:
    """The commands that it runs when it comes and goes."""
    if package.suffix == ".deb":
        contents = subprocess.run(["dpkg-deb", "--ctrl-tarfile", package], check=True, capture_output=True).stdout
        command: list[str | Path] = ["tar", "--extract", "--to-stdout", "--file=-"]
        return subprocess.run(command, check=True, capture_output=True, input=contents).stdout.decode()
    command = ["rpm", "--query", "--package", "--scripts", package]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(deb, marks=needed.a_program("dpkg-deb")),
        pytest.param(rpm, marks=[needed.a_program("rpmbuild"), needed.a_program("cpio")]),
    ],
    ids=["deb", "rpm"],
)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    left_by_a_build = PROJECT / "build/lib/freetrain/gone.py"
    left_by_a_build.parent.mkdir(parents=True, exist_ok=True)
    left_by_a_build.touch()
    found: Path = request.param(tmp_path_factory.mktemp("package"))
    return found


@pytest.fixture
def installed(package: Path, tmp_path: Path) -> Path:
    unpack(package, tmp_path)
    return tmp_path


def test_it_holds_what_a_site_needs_and_nothing_of_where_it_was_made(package: Path, installed: Path) -> None:
    names = {f"/{found.relative_to(installed)}" for found in installed.rglob("*") if not found.is_dir()}
    assert names >= EXPECTED
    assert (installed / "etc/freetrain").is_dir()
    assert any("freetrain/__pycache__/" in name for name in names)
    (library,) = (installed / "opt/freetrain/lib").glob("python3.*/site-packages")
    assert {path.relative_to(library) for path in (library / "freetrain").rglob("*.py")} == {
        path.relative_to(PROJECT) for path in (PROJECT / "freetrain").rglob("*.py")
    }
    assert {name.rpartition("/")[2] for name in names} >= {"page.css", "web.html.j2", "web.css", "live.js"}
    for text in (installed / "opt/freetrain/bin").iterdir():
        if not text.is_symlink():
            assert str(package.parent) not in text.read_text()
            assert str(installed.parent) not in text.read_text()
    assert (installed / "opt/freetrain/bin/freetrain").read_text().startswith("#!/opt/freetrain/bin/python")


def test_the_account_is_made_before_its_directories(package: Path) -> None:
    commands = scripts(package)
    assert commands.index("systemd-sysusers ") < commands.index("systemd-tmpfiles ")


@needed.a_program("systemd-sysusers")
@needed.several_people
@pytest.mark.parametrize("has_state", [False, True])
def test_a_debian_package_comes_is_upgraded_and_goes_in_another_root_and_leaves_nothing_that_is_not_state(
    package: Path, tmp_path: Path, has_state: bool
) -> None:
    if package.suffix != ".deb":
        pytest.skip("RPM keeps accounts")
    stage, root = tmp_path / "stage", tmp_path / "root"
    stage.mkdir()
    subprocess.run(["dpkg-deb", "--control", package, stage / "DEBIAN"], check=True)
    assert "procps" in (stage / "DEBIAN/control").read_text(), "ExecReload= uses its kill"
    (stage / "DEBIAN/md5sums").unlink(missing_ok=True)
    settings = root / "etc/freetrain/freetrain.toml"
    for name in ("sysusers", "tmpfiles"):
        target = stage / f"usr/lib/{name}.d/freetrain.conf"
        target.parent.mkdir(parents=True)
        target.write_text((PROJECT / f"systemd/freetrain.{name}").read_text())
    control, this = stage / "DEBIAN/control", f"Version: {freetrain.__version__}"
    for name, version in (("old.deb", "Version: 0.0.1"), ("small.deb", this)):
        control.write_text(re.sub("Version: .*", version, control.read_text()))
        subprocess.run(["dpkg-deb", "--build", stage, tmp_path / name], check=True, capture_output=True)
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "var/log"):
        (root / folder).mkdir(parents=True)
    for file in ("var/lib/dpkg/status", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"):
        (root / file).touch()
    dpkg = ["dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends"]

    def accounts() -> list[str]:
        return [line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("freetrain:")]

    subprocess.run([*dpkg, "--install", tmp_path / "old.deb"], check=True, capture_output=True)
    (before,) = accounts()
    settings.write_text("# the site's\n")
    if has_state:
        (root / "var/lib/freetrain").mkdir()
    subprocess.run([*dpkg, "--install", tmp_path / "small.deb"], check=True, capture_output=True)
    assert this in (root / "var/lib/dpkg/status").read_text()
    assert (accounts(), settings.read_text()) == ([before], "# the site's\n"), "an upgrade keeps both"
    assert (root / "run/freetrain").is_dir()
    subprocess.run([*dpkg, "--purge", "freetrain"], check=True, capture_output=True)
    assert not (root / "run/freetrain").exists()
    assert not settings.exists()
    assert len(accounts()) == has_state


def test_what_somebody_has_enabled_ends_when_it_goes(package: Path) -> None:
    commands = scripts(package).replace("\\\n", " ").splitlines()
    ended = next(line for line in commands if "systemctl disable --now" in line)
    enabled = [unit.name for unit in sorted((PROJECT / "systemd").iterdir()) if "[Install]" in unit.read_text()]
    assert "freetrain-backup.timer" in enabled
    assert [unit for unit in enabled if unit not in ended.split()] == []


def test_each_shell_finds_its_completion(package: Path, installed: Path) -> None:
    zsh = "vendor-completions" if package.suffix == ".deb" else "site-functions"
    places = {
        "bash": "bash-completion/completions/freetrain",
        "fish": "fish/vendor_completions.d/freetrain.fish",
        "zsh": f"zsh/{zsh}/_freetrain",
    }
    for shell, place in places.items():
        assert f"_FREETRAIN_COMPLETE={shell}_complete" in (installed / "usr/share" / place).read_text()


def test_what_it_installs_runs(installed: Path) -> None:
    done = subprocess.run(
        [installed / "opt/freetrain/bin/python", "-m", "freetrain", "--version"],
        env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"freetrain, version {freetrain.__version__}")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@needed.a_program("debootstrap")
@needed.several_people
def test_a_debian_package_comes_is_upgraded_and_goes_in_a_root_of_its_own(tmp_path: Path) -> None:
    """Minutes, a mirror of Debian and a package index: nothing of this machine is in that root but the package."""
    root, stage = tmp_path / "root", tmp_path / "stage"
    environment = {**os.environ, "PYTHON": "/usr/bin/python3"}
    subprocess.run([PROJECT / "etc/packages/deb.sh"], cwd=tmp_path, env=environment, check=True)
    (package,) = tmp_path.glob("freetrain_*.deb")
    (release,) = re.findall(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    program = ["debootstrap", "--variant=minbase", "--include=python3,procps,systemd", release, root]
    subprocess.run(program, check=True, capture_output=True)
    before = files_of(root)
    subprocess.run(["dpkg-deb", "--raw-extract", package, stage], check=True)
    control = stage / "DEBIAN/control"
    control.write_text(re.sub("Version: .*", "Version: 0.0.1", control.read_text()))
    subprocess.run(["dpkg-deb", "-Znone", "--build", stage, root / "old.deb"], check=True, capture_output=True)
    (root / "new.deb").write_bytes(package.read_bytes())

    def inside(*command: str) -> str:
        return subprocess.run(["chroot", root, *command], check=True, capture_output=True, text=True).stdout

    inside("dpkg", "--install", "/old.deb")
    settings = root / "etc/freetrain/freetrain.toml"
    settings.write_text('[slurm]\npartition = "freetrain"\n')
    inside("dpkg", "--install", "/new.deb")
    assert 'partition = "freetrain"' in settings.read_text()
    assert freetrain.__version__ in inside("freetrain", "--version")
    inside("freetrain", "policies")
    inside("dpkg", "--purge", "freetrain")
    for name in ("old.deb", "new.deb"):
        (root / name).unlink()
    assert files_of(root) <= before, "dpkg removes /opt, too, where nothing else is there"


def files_of(root: Path) -> set[str]:
    """The files of a root, without what dpkg and the tools for accounts write about themselves."""
    found = subprocess.run(["find", root, "-xdev", "-printf", "%P\n"], check=True, capture_output=True, text=True)
    own = re.compile(
        r"var/(lib/dpkg|log|cache)(/|$)|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|etc/\.pwd\.lock$"
    )
    return {name for name in found.stdout.splitlines() if not own.match(name)}
