from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from freetrain.daemon.controls.nudge import WAKE_NAME, WakeFile


def append(directory: Path, what: str = ".") -> None:
    with (directory / WAKE_NAME).open("a") as file:
        file.write(what)


def test_a_byte_wakes_once(tmp_path: Path) -> None:
    wake = WakeFile(tmp_path)
    assert not wake.has_changed()
    append(tmp_path)
    assert wake.has_changed()
    assert not wake.has_changed()


def test_what_was_written_before_the_start_wakes_nobody(tmp_path: Path) -> None:
    append(tmp_path, "...")
    assert not WakeFile(tmp_path).has_changed()


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_its_owner_and_group_can_write_to_it_whatever_the_umask_and_the_sites_mode_stays(
    tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        WakeFile(tmp_path)
    finally:
        os.umask(before)
    path = tmp_path / WAKE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o620
    path.chmod(0o660)
    WakeFile(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    wake = WakeFile(tmp_path)
    append(tmp_path, "." * 70_000)
    assert wake.has_changed()
    assert (tmp_path / WAKE_NAME).stat().st_size == 0
    assert not wake.has_changed()
    append(tmp_path)
    assert wake.has_changed()


def test_one_that_is_taken_away_wakes_nobody_and_one_that_is_made_anew_does(tmp_path: Path) -> None:
    wake = WakeFile(tmp_path)
    (tmp_path / WAKE_NAME).unlink()
    assert not wake.has_changed()
    append(tmp_path)
    assert wake.has_changed()
