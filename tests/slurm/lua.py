"""Where Lua is, and the plug-ins that run in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import needed

_PLUGINS = Path(__file__).parents[2] / "etc/slurm"
JOB_SUBMIT = _PLUGINS / "job_submit.lua"
JOB_COMP = _PLUGINS / "jobcomp.lua"

_NAMES = ("lua5.1", "lua5.3", "lua5.4")
INTERPRETERS = [found for name in _NAMES if (found := shutil.which(name))] or [
    pytest.param("lua5.1", marks=needed.a_program(*_NAMES))
]
"""All that there are, since Slurm is built with one or another; where there is none, CI fails for want of it."""


def job_comp_with(wake_file: Path) -> str:
    """The text of jobcomp.lua for a wake file elsewhere."""
    text = JOB_COMP.read_text()
    assert "/var/lib/freetrain/wake" in text
    return text.replace("/var/lib/freetrain/wake", str(wake_file))
