"""Packages of somebody else's, installed for one test."""

from __future__ import annotations

from pathlib import Path

import pytest


def install_policy(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    module: str,
    code: str,
    group: str = "freetrain.policies",
) -> None:
    """Install a package of one module whose class ``Still`` is a policy of this name, or what else the group has.

    No two tests may use the same module: Python imports it once.
    """
    site = folder / module
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{module}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{policy} = {module}:Still\n")
    monkeypatch.syspath_prepend(str(site))
