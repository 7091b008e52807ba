"""Where Lua is, and the plug-in that runs in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

JOB_SUBMIT = Path(__file__).parents[2] / "etc/slurm/job_submit.lua"

_MISSING = pytest.param(
    "lua5.1",
    marks=pytest.mark.skipif(not os.environ.get("CI"), reason="No Lua. On Debian and Ubuntu: apt install lua5.4"),
)
INTERPRETERS = [found for name in ("lua5.1", "lua5.3", "lua5.4") if (found := shutil.which(name))] or [_MISSING]
"""All that there are, since Slurm is built with one or another; where there is none, CI fails for want of it."""
