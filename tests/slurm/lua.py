"""Where Lua is, and the plug-in that runs in it."""

from __future__ import annotations

import shutil
from pathlib import Path

JOB_SUBMIT = Path(__file__).parents[2] / "etc/slurm/job_submit.lua"
INTERPRETERS = [found for name in ("lua5.1", "lua5.3", "lua5.4") if (found := shutil.which(name))] or ["lua5.1"]
"""All that there are, since Slurm is built with one or another; where there is none, tests fail for want of it."""
