"""Seeds of what tests draw at random: few in every run, many more in ``make soak``."""

from __future__ import annotations

import pytest


def seeds(few: int, many: int, first: int = 0) -> list[object]:
    """The first few seeds, and those up to so many as soaks."""
    more = range(first + few, first + many)
    return [*range(first, first + few), *(pytest.param(seed, marks=pytest.mark.soak) for seed in more)]
