from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from freetrain.daemon.admission.access import WakeCheck, closed_wake_file, may
from freetrain.slurm.settings import SlurmSettings, parse_settings
from tests.daemon.fake_slurm import CONFIG, FakeSlurm
from tests.slurm.lua import JOB_SUBMIT, job_comp_with

OTHERS_USER, OTHERS_GROUP = 64030, 64031


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with a wake file, as the daemon makes them; slurm is in no group of ours."""
    account = pwd.struct_passwd(("slurm", "x", OTHERS_USER, OTHERS_GROUP, "", "/", "/bin/false"))
    where = "freetrain.daemon.admission.access"
    monkeypatch.setattr(f"{where}.pwd.getpwnam", lambda name: {"slurm": account}[name])
    monkeypatch.setattr(f"{where}.os.getgrouplist", lambda *_: [OTHERS_GROUP])
    monkeypatch.setattr(f"{where}.grp.getgrgid", lambda _: SimpleNamespace(gr_name="slurm"))
    directory = tmp_path / "state"
    directory.mkdir()
    directory.chmod(0o755)
    (directory / "wake").touch()
    (directory / "wake").chmod(0o620)
    return directory


def settings(tmp_path: Path, plugin: str) -> SlurmSettings:
    return parse_settings(f"{CONFIG}{plugin}\nSLURM_CONF = {tmp_path}/slurm.conf\n")


def mends(state: Path, tmp_path: Path, plugin: str = "JobCompType = jobcomp/lua") -> list[str]:
    found = closed_wake_file(state, settings(tmp_path, plugin))
    assert found is None or not found.is_unsafe
    return found.mend.splitlines() if found else []


def test_a_wake_file_that_slurmctld_cannot_write_is_found_and_each_line_mends_a_part(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = state / "wake"
    (tmp_path / "jobcomp.lua").write_text(job_comp_with(wake))
    assert mends(state, tmp_path) == [f"chgrp slurm {wake}"]
    found = closed_wake_file(state, settings(tmp_path, "JobCompType = jobcomp/lua"))
    assert found is not None
    assert found.what == (
        f"JobCompType=jobcomp/lua is to wake the daemon, but slurmctld's account, slurm, cannot write {wake}."
    )
    wake.chmod(0o600)
    state.chmod(0o750)
    assert mends(state, tmp_path) == [f"chmod a+x {state}", f"chgrp slurm {wake}", f"chmod g+w {wake}"]
    # Now it is as if these lines had been run.
    wake.chmod(0o620)
    monkeypatch.setattr("freetrain.daemon.admission.access.os.getgrouplist", lambda *_: [wake.stat().st_gid])
    assert mends(state, tmp_path) == []


def test_the_submit_plugin_counts_where_its_code_names_the_file_and_not_a_comment(
    state: Path, tmp_path: Path
) -> None:
    plugin, wake = "JobSubmitPlugins = all_partitions,lua", str(state / "wake")
    shipped = JOB_SUBMIT.read_text().replace("/var/lib/freetrain/wake", wake)
    (tmp_path / "job_submit.lua").write_text(shipped)
    assert mends(state, tmp_path, plugin) == []
    (tmp_path / "job_submit.lua").write_text(shipped.replace("wake_file = nil", f'wake_file = "{wake}"'))
    assert mends(state, tmp_path, plugin) == [f"chgrp slurm {wake}"]
    assert mends(state, tmp_path, "JobSubmitPlugins = (null)") == []


def test_where_nobody_can_say_nothing_is_said(state: Path, tmp_path: Path) -> None:
    assert mends(state, tmp_path) == [], "there is no jobcomp.lua here"
    (tmp_path / "jobcomp.lua").write_text(job_comp_with(state / "wake"))
    unknown = (
        f"{CONFIG.replace('slurm(1)', 'nobody-here(7)')}JobCompType = jobcomp/lua\nSLURM_CONF = {tmp_path}/s\n"
    )
    assert closed_wake_file(state, parse_settings(unknown)) is None
    (state / "wake").unlink()
    assert mends(state, tmp_path) == [], "the daemon has yet to make it"


@pytest.mark.parametrize(
    ("mode", "user", "groups", "allowed"),
    [
        (0o620, 5, {9}, True), (0o420, 5, {6}, False), (0o620, 7, {6}, True), (0o600, 7, {6}, False),
        (0o602, 7, {9}, True), (0o620, 7, {9}, False), (0o000, 0, {9}, True), (0o602, 7, {6}, False),
    ],
)  # fmt: skip
def test_owner_group_and_others_are_told_apart_as_the_kernel_does(
    mode: int, user: int, groups: set[int], allowed: bool
) -> None:
    file = os.stat_result((mode, 0, 0, 0, 5, 6, 0, 0, 0, 0))
    assert may(0o2, file, user, groups) is allowed


def test_a_daemon_at_work_says_it_once_and_sees_within_a_minute_that_it_was_mended(
    state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slurm, now_s = FakeSlurm(), [0.0]
    slurm.config = f"{CONFIG}JobCompType = jobcomp/lua\nSLURM_CONF = {tmp_path}/slurm.conf\n"
    (tmp_path / "jobcomp.lua").write_text(job_comp_with(state / "wake"))
    check = WakeCheck(state, slurm, lambda: now_s[0])
    for now_s[0] in (0.0, 30.0, 60.0, 120.0):
        assert check.problem().endswith(f"Mend it with: chgrp slurm {state}/wake")
    assert len(caplog.messages) == 1
    (state / "wake").chmod(0o622)
    now_s[0] = 180.0
    assert check.problem() == ""
