"""What a test needs of the machine. Where it is missing the test is skipped, and in CI it runs and fails."""

from __future__ import annotations

import os
import shutil

import pytest

IN_CI = "CI" in os.environ


def a_program(*names: str) -> pytest.MarkDecorator:
    """One of these, the first by preference."""
    missing = not any(shutil.which(name) for name in names)
    return pytest.mark.skipif(missing and not IN_CI, reason=f"no {names[0]}: see tests/install_programs.sh")


several_people = pytest.mark.skipif(os.geteuid() != 0 and not IN_CI, reason="only root can play several people")
