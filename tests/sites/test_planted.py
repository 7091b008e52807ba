"""What freetrain does on a site of each planted configuration: from Slurm's texts to what is lent, to whom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sites.cases import CASES, Case
from tests.sites.living_site import LivingSite, what_freetrain_does

PAGE = (Path(__file__).parents[2] / "docs/reference/sites.md").read_text()
SAID = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGE.partition("## Planted configurations\n")[2], re.MULTILINE))
"""Configuration → what the page says that freetrain does."""


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_freetrain_does_what_the_page_says(case: Case, tmp_path: Path) -> None:
    site = LivingSite(tmp_path, case.kind)
    case.plant(site)
    assert what_freetrain_does(site) == SAID[case.name]


def test_the_page_says_nothing_that_is_not_tried() -> None:
    assert list(SAID)[1:] == [case.name for case in CASES]
    assert len(CASES) >= 30
