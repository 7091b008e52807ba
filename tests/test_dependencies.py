"""An audit of what an installation consists of, without a network: every package fits, and says its licence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@cache
def installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What an installed package requires here."""
    found = installed(name)
    assert found is not None
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def needed() -> Mapping[str, list[Requirement]]:
    """Each package that freetrain needs, of itself or for another, with what is required of it."""
    found: dict[str, list[Requirement]] = {}
    waiting = list(requirements("freetrain", frozenset()))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        is_new = name not in found
        found.setdefault(name, []).append(requirement)
        if is_new and installed(name) is not None:
            waiting += requirements(name, frozenset(requirement.extras))
    return found


def test_every_package_that_is_needed_is_there_in_a_version_that_all_who_need_it_accept() -> None:
    unfit = {
        f"{requirement} (there is {None if package is None else package.version})"
        for name, of_it in needed().items()
        for requirement in of_it
        if (package := installed(name)) is None
        or not requirement.specifier.contains(package.version, prereleases=True)
    }
    assert not unfit


def has_licence(package: Distribution) -> bool:
    fields = ("License", "License-Expression", "License-File")
    classifiers = package.metadata.get_all("Classifier") or ()
    return any(package.metadata[field] for field in fields if field in package.metadata) or any(
        text.startswith("License ::") for text in classifiers
    )


def test_every_package_says_its_licence() -> None:
    packages = filter(None, map(installed, needed()))
    assert not {package.name for package in packages if not has_licence(package)}
