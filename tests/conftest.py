from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_store_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test records by default goes to a place of its own, not to the home of whoever runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.delenv("FREETRAIN_STORE", raising=False)
    monkeypatch.delenv("FREETRAIN_CONFIG", raising=False)
