"""The units: systemd finds nothing wrong with them, and calls them well hardened."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from tests import needed

UNITS = Path(__file__).parents[1] / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
TIMERS = sorted(UNITS.glob("*.timer"))
MOST_EXPOSED = 25
"""Tenths; systemd calls everything below 4.0 OK."""

needs_systemd = needed.a_program("systemd-analyze")


def analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60)


def values(unit: Path, setting: str) -> list[str]:
    """What a unit's file says of a setting, in its order; none: nothing."""
    pairs = (line.partition("=") for line in unit.read_text().splitlines())
    return [value for name, _, value in pairs if name == setting]


def account(service: Path) -> str:
    """Whose the service's directories are; one with DynamicUser has an account that no other service has."""
    return "".join(values(service, "User")) or service.name


def exposure(unit: Path) -> subprocess.CompletedProcess[str]:
    return analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES + TIMERS, ids=lambda path: path.name)
def test_a_unit_is_one(unit: Path) -> None:
    done = analyzed("verify", "--man=no", unit)
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_a_service_may_do_no_more_than_it_needs(unit: Path, tmp_path: Path) -> None:
    done = exposure(unit)
    assert done.returncode == 0, done.stdout
    open_one = tmp_path / unit.name
    open_one.write_text(
        unit.read_text().replace("CapabilityBoundingSet=\n", "").replace("ProtectSystem=strict\n", "")
    )
    assert exposure(open_one).returncode != 0


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_a_service_gives_way_to_slurm_where_the_processor_is_wanted(unit: Path) -> None:
    (weight,), (nice,) = values(unit, "CPUWeight"), values(unit, "Nice")
    usual_weight, usual_nice = 100, 0
    assert int(weight) < usual_weight
    assert int(nice) > usual_nice


@needed.several_people
@needed.a_program("systemd-tmpfiles")
def test_the_directories_are_there_before_a_daemon_has_run(tmp_path: Path) -> None:
    # Below another root, with an account of its own.
    daemons = 4711
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"freetrain:x:{daemons}:{daemons}::/:\n")
    (tmp_path / "etc/group").write_text(f"freetrain:x:{daemons}:\n")
    command = ["systemd-tmpfiles", "--create", f"--root={tmp_path}", UNITS / "freetrain.tmpfiles"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    (runtime_directory,) = values(UNITS / "freetrain.service", "RuntimeDirectory")
    for name, owner in (("etc/freetrain", 0), (f"run/{runtime_directory}", daemons)):
        made = (tmp_path / name).stat()
        assert (made.st_mode & 0o7777, made.st_uid) == (0o755, owner)


@needs_systemd
def test_the_account_is_one(tmp_path: Path) -> None:
    # This machine may have it already; an empty one does not.
    command = ["systemd-sysusers", "--dry-run", f"--root={tmp_path}", UNITS / "freetrain.sysusers"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "freetrain" in done.stdout + done.stderr) == (0, True), done.stderr


def test_services_of_different_accounts_share_no_directory() -> None:
    # systemd gives a directory to the account of whichever of them was started last.
    for one, other in itertools.combinations(SERVICES, 2):
        for setting in ("StateDirectory", "RuntimeDirectory"):
            both = {*values(one, setting)} & {*values(other, setting)}
            assert not both or account(one) == account(other), f"{setting}={both} of {one.name} and {other.name}"
