from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from freetrain.config import Config
from freetrain.daemon.admission.access import closed_part, closed_python, closed_state, closed_textfile
from freetrain.daemon.admission.inspection import daemons_account

THEIRS = 64030


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of ours, and an account freetrain, which is in no group of ours."""
    account = pwd.struct_passwd(("freetrain", "x", THEIRS, THEIRS, "", "/", "/bin/false"))
    where = "freetrain.daemon.admission.access"
    monkeypatch.setattr(f"{where}.pwd.getpwnam", lambda name: {"freetrain": account}[name])
    monkeypatch.setattr(f"{where}.os.getgrouplist", lambda *_: [THEIRS])
    directory = tmp_path / "state"
    directory.mkdir()
    directory.chmod(0o755)
    return directory


def test_a_directory_that_the_account_may_not_write_is_found(state: Path) -> None:
    found = closed_state(state, "freetrain")
    assert found is not None
    assert found.is_unsafe
    assert found.what == f"The daemon's account, freetrain, may not write {state} (state.directory)."
    assert found.mend == f"chown freetrain {state}"
    state.chmod(0o777)
    assert closed_state(state, "freetrain") is None


def test_a_database_that_root_has_made_in_it_is_found(state: Path) -> None:
    state.chmod(0o777)
    database = state / "freetrain.db"
    database.touch()
    database.chmod(0o640)
    found = closed_state(state, "freetrain")
    assert found is not None
    assert f"may not write {database} " in found.what


def test_what_else_is_in_the_directory_keeps_its_owner(state: Path) -> None:
    database = state / "freetrain.db"
    for path in (database, state / "of another program"):
        path.touch()
        path.chmod(0o640)
    found = closed_state(state, "freetrain")
    assert found is not None
    assert found.mend == f"chown freetrain {state} {database}"


def test_the_command_can_be_pasted_where_the_path_has_blanks(state: Path) -> None:
    spaced = state / "of the daemon"
    spaced.mkdir(mode=0o755)
    found = closed_state(spaced, "freetrain")
    assert found is not None
    assert found.mend == f"chown freetrain '{spaced}'"


def test_to_write_it_one_must_be_able_to_enter_it(state: Path) -> None:
    state.chmod(0o776)
    assert closed_state(state, "freetrain") is not None


def test_where_nobody_can_say_nothing_is_said(state: Path) -> None:
    assert closed_state(state, "stranger") is None
    assert closed_state(state / "none", "freetrain") is None


def test_whoever_owns_the_directory_is_the_daemons_account_unless_root_has_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.model_validate({"state": {"directory": str(tmp_path)}})
    names = {0: "root", THEIRS: "freetrain", 7: "lender"}
    where = "freetrain.daemon.admission.inspection.pwd"
    monkeypatch.setattr(f"{where}.getpwuid", lambda uid: SimpleNamespace(pw_name=names[uid]))
    monkeypatch.setattr(f"{where}.getpwnam", lambda name: SimpleNamespace(pw_name=name))
    for owner, account in ((7, "lender"), (THEIRS, "freetrain"), (0, "freetrain")):
        monkeypatch.setattr(
            Path, "stat", lambda *_, owner=owner: os.stat_result([0o755, 0, 0, 0, owner, 0, 0, 0, 0, 0])
        )
        assert daemons_account(config) == account


@pytest.mark.parametrize(
    ("is_there", "says"), [(True, "freetrain may not write"), (False, "there is no directory")]
)
def test_a_textfile_that_cannot_be_written_is_found(state: Path, is_there: bool, says: str) -> None:
    directory = state if is_there else state / "none"
    config = Config.model_validate({"metrics": {"textfile": f"{directory}/freetrain.prom"}})
    found = closed_textfile(config, "freetrain")
    assert found is not None
    assert found.what == f"metrics.textfile: {says} {directory}, so no metrics are written."
    assert str(directory) in found.mend
    directory.mkdir(exist_ok=True)
    directory.chmod(0o777)
    assert closed_textfile(config, "freetrain") is None


@pytest.mark.parametrize("backend", ["auto", "pyslurm"])
def test_a_python_that_the_account_may_not_execute_is_found(
    state: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    program = state / "home" / "python3"
    program.parent.mkdir(mode=0o700)
    program.touch(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setattr("freetrain.daemon.admission.access.find_spec", lambda name: name)
    config = Config.model_validate({"slurm": {"backend": backend}})
    # Folders above may be closed to others, too: pytest makes them for their owner alone.
    monkeypatch.setattr(
        "freetrain.daemon.admission.access.may",
        lambda wanted, file, *_: not (file.st_ino == program.parent.stat().st_ino and file.st_mode & 0o001 == 0),
    )
    found = closed_python(config, "freetrain")
    assert found is not None
    assert f"freetrain, may not execute {program.parent}, " in found.what
    assert (found.mend, found.is_unsafe) == (f"chmod o+x {program.parent}", backend == "pyslurm")
    program.parent.chmod(0o701)
    assert closed_python(config, "freetrain") is None
    assert closed_python(Config.model_validate({"slurm": {"backend": "cli"}}), "freetrain") is None


def test_the_folder_that_keeps_an_account_from_python_is_named(tmp_path: Path) -> None:
    home, link = tmp_path / "home" / "python", tmp_path / "venv" / "python"
    for folder in (home.parent, link.parent):
        folder.mkdir()
    home.touch(0o755)
    link.symlink_to(home)
    assert closed_part(link, lambda part: True) is None
    assert closed_part(link, lambda part: part != home.parent) == home.parent
    assert closed_part(link, lambda part: part not in (link.parent, home.parent)) == link.parent
