"""On what the figures were taken."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """Operating system, processor, number of processors."""
    return {"platform": platform.platform(), "processor": _processor(), "cpus": os.cpu_count()}


def version_facts(*packages: str) -> dict[str, str]:
    """Versions of Python and these packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _processor() -> str:
    """The processor's name, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
