from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from freetrain.config import Config
from freetrain.daemon.admission.inspection import daemons_account
from freetrain.daemon.admission.state_check import closed_state

THEIRS = 64030


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of ours, and an account freetrain, which is in no group of ours."""
    account = pwd.struct_passwd(("freetrain", "x", THEIRS, THEIRS, "", "/", "/bin/false"))
    where = "freetrain.daemon.admission.state_check"
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
