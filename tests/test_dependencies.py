"""What an installation consists of is reviewed: any package more fails, also one that another begins to need."""

from __future__ import annotations

from collections.abc import Iterable
from configparser import ConfigParser
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]


def own_requirements() -> list[str]:
    """Those of freetrain, and of reports, as the packages install them."""
    read = ConfigParser()
    read.read(PROJECT / "setup.cfg")
    texts = f"{read['options']['install_requires']}\n{read['options.extras_require']['report']}"
    return [line for line in texts.splitlines() if line and not line.startswith("#")]


def installed_for(requirements: Iterable[str], found: set[str]) -> set[str]:
    """The packages that meet these requirements, with all that those need."""
    for needed in map(Requirement, requirements):
        name = canonicalize_name(needed.name)
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found.add(name)
            installed_for(requires(name) or (), found)
    return found


def test_all_packages_of_an_installation_are_on_the_list() -> None:
    lines = (PROJECT / "etc/packages/dependencies.txt").read_text().splitlines()
    listed = {line for line in lines if not line.startswith("#")}
    assert installed_for(own_requirements(), set()) - listed == set(), "look at what it is, and add it to the list"
